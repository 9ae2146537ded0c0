"""The console's style sheet. Its colours are those of the themes in `themes.py`.

The style sheet is a string, because Textual looks a file up beside the class of the application, which in
tests is a subclass elsewhere.
"""

from __future__ import annotations

CSS = """
.tone--dim { color: $dim; }
.tone--strong { text-style: bold; }
.tone--good { color: $success; }
.tone--warn { color: $warning; }
.tone--bad { color: $warning; text-style: bold; }
.tone--accent { color: $accent; }
.tone--alarm { color: $background; background: $error; text-style: bold; }
.tone--key { color: $accent; text-style: bold; }
.tone--head { color: $background; background: $accent; text-style: bold; }
.tone--quote { background: $panel; }
.rows--cursor { background: $panel; }
.rows--resting { background: $surface; }

Screen { background: $background; layout: vertical; }
LineBar { height: 1; width: 1fr; }
LineView, VirtualList {
    height: 1fr;
    background: $background;
    scrollbar-size-vertical: 1;
    scrollbar-background: $background;
    scrollbar-background-hover: $background;
    scrollbar-background-active: $background;
    scrollbar-color: $panel;
    scrollbar-color-hover: $accent;
    scrollbar-color-active: $accent;
}
#header { background: $surface; }
#alert { background: $surface; }
#keys, #card-keys { background: $surface; }
ContentSwitcher { height: 1fr; }
CatalogView, ApprovalsView, ActivityView, GrantsView, AuditView, DoctorView { height: 1fr; }
#list-side { width: 1fr; }
#ladder { border-left: vkey $panel; }
#call-below { height: 50%; border-top: hkey $panel; }
#call-views, #call-columns { background: $surface; }
#notes { margin-bottom: 0; }
#check-fix { background: $surface; }
#filter, #audit-filter, #activity-filter,
#help-search { height: 1; border: none; padding: 0 1; background: $panel; }
#filter:focus, #audit-filter:focus, #activity-filter:focus, #help-search:focus { border: none; }
#card-title { background: $panel; }
#card { border-left: outer $accent; }

PressAgainScreen, EnterCodeScreen, PairingRequestScreen, JumpScreen, TextPromptScreen, LeaseScreen,
RuleScreen, EditInputScreen {
    align: center middle;
    background: $background 70%;
}
.box {
    width: 72;
    max-width: 96%;
    height: auto;
    max-height: 90%;
    background: $surface;
    border: round $accent;
    padding: 0 1;
}
.box LineView { height: auto; max-height: 16; min-height: 4; background: $surface; }
.box LineBar { background: $surface; }
.box VirtualList { height: 14; background: $surface; }
.form { width: 96; height: 90%; }
.form LineView { height: 1fr; max-height: 100%; }
#edit { height: 1fr; min-height: 3; border: none; padding: 0; background: $panel; }
#edit:focus { border: none; }
#because { border: none; height: 1; padding: 0 1; background: $panel; }
#because:focus { border: none; }
#jump { border: none; height: 1; padding: 0 1; background: $panel; }
#jump:focus { border: none; }
#reason { border: none; height: 1; padding: 0 1; margin: 1 0; background: $panel; }
#reason:focus { border: none; }
#code { border: none; height: 1; padding: 0 1; margin: 1 0; background: $panel; }
#code:focus { border: none; }
"""
