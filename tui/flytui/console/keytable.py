"""Every key of the console: its id, its default, what it does. Pure, and imports no Textual.

The key lines, the help, the palette and `flytui config show` are made from this table; a test holds it
against the bindings. A key is written as a person writes it: `/`, `ctrl+p`, `f5`, `enter`; several keys of
one action are parted by spaces. An entry without an id belongs to its screen for good.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One action of a screen."""

    id: str
    """`<screen>.<action>`, which `keys` in config.jsonc names; `""` where the key is fixed."""
    keys: str
    title: str
    """Its name in the palette; `""` where the palette does not offer it."""
    words: str

    @property
    def defaults(self) -> tuple[str, ...]:
        """The default keys one by one."""
        return tuple(self.keys.split())


@dataclass(frozen=True, slots=True)
class KeySection:
    """The actions of one screen."""

    screen: str
    """What its ids begin with."""
    title: str
    entries: tuple[Entry, ...]


SECTIONS: tuple[KeySection, ...] = (
    KeySection(
        "app",
        "Everywhere",
        (
            Entry("app.panic", "ctrl+x", "", "stop everything, pressed twice within a second; in text too"),
            Entry(
                "app.card",
                "ctrl+o",
                "Open request",
                "the request that waits longest; where none does, the first question; releases a stop",
            ),
            Entry("app.trust", "T", "Trust", "entries of the registry that wait for trust"),
            Entry(
                "app.pair",
                "P",
                "Pair",
                "type the code of the console that has the kernel; there: see which console asks",
            ),
            Entry(
                "app.take",
                "O",
                "Take the root",
                "the other console's kernel is gone: open one here, with its requests that wait",
            ),
            Entry("", "ctrl+p", "", "command palette"),
            Entry("app.help", "?", "Help", "this page: first what is before you, then everything else"),
            Entry("app.leave", "ctrl+q", "Quit", "quit; asks first while requests wait"),
            Entry("app.say-quit", "ctrl+c", "", "ends nothing; says how to quit"),
        ),
    ),
    KeySection(
        "main",
        "Screens",
        (
            Entry("main.catalog", "1", "Catalog", "which tools there are and how they are"),
            Entry("main.approvals", "2", "Approvals", "what waits for you"),
            Entry("main.activity", "3", "Activity", "calls running and finished"),
            Entry("main.grants", "4", "Grants", "leases, rules and blocks that stand"),
            Entry("main.audit", "5", "Audit", "the log of all that happened"),
            Entry("main.doctor", "7", "Doctor", "everything this stands on, with what to do"),
            Entry("main.leave", "q", "", "quit; asks first while requests wait"),
        ),
    ),
    KeySection(
        "list",
        "Lists",
        (
            Entry("list.up", "up k", "", "one row up"),
            Entry("list.down", "down j", "", "one row down"),
            Entry("list.page-up", "pageup", "", "one screen up"),
            Entry("list.page-down", "pagedown", "", "one screen down"),
            Entry("list.first", "home", "", "the first row"),
            Entry("list.last", "end", "", "the last row"),
            Entry("list.open", "enter", "Open the row", "details, the card, or what became of it"),
        ),
    ),
    KeySection(
        "page",
        "Pages",
        (
            Entry("page.close", "escape q backspace", "Back", "back to where you were"),
            Entry("page.copy", "y", "Copy as JSON", "send what the page shows to the terminal's clipboard"),
            Entry("page.up", "up k", "", "one line up"),
            Entry("page.down", "down j", "", "one line down"),
        ),
    ),
    KeySection(
        "catalog",
        "Catalog",
        (
            Entry(
                "catalog.filter",
                "/",
                "Filter the catalog",
                "filter: words, state: risk: sidecar: policy: source:, !opposite",
            ),
            Entry(
                "catalog.test-call",
                "t",
                "Test call",
                "write an input in a form made from the tool's schema, and call it",
            ),
            Entry("catalog.jump", ":", "Jump to a tool", "some letters of its name, then Enter"),
            Entry("catalog.group", "g", "Group", "by family, or by sidecar"),
            Entry("catalog.why", "w", "Why", "why it is so, and what a call would meet, with the rule"),
            Entry("catalog.difference", "D", "Difference", "what changed since it was trusted and approved"),
            Entry("catalog.clear", "escape", "Clear the filter", "no filter"),
            Entry("catalog.ladder", "s", "Ladder", "show or hide the stability ladder beside the list"),
            Entry(
                "catalog.fix",
                "F",
                "Fix",
                "the fix a reason offers: shown exactly, then done by one armed key",
            ),
            Entry("catalog.enable", "E", "Switch on", "switch the sidecar on in its registry file"),
            Entry(
                "catalog.disable",
                "X",
                "Switch off",
                "switch the sidecar off, with a reason for whoever looks",
            ),
            Entry(
                "catalog.init", "i", "First registry", "in a folder without one: read it, and have it written"
            ),
            Entry("catalog.probe", "R", "Probe again", "ask the sidecar under the cursor whether it is well"),
            Entry(
                "catalog.problems", "p", "Problems", "problems found in registry, policy and settings files"
            ),
            Entry(
                "catalog.sources",
                "K",
                "Kits and sources",
                "kits, skills, plugins and other clients' MCP servers: read, never run",
            ),
            Entry("catalog.copy", "y", "Copy the tool as JSON", "send the tool to the terminal's clipboard"),
        ),
    ),
    KeySection(
        "sources",
        "Kits and sources",
        (
            Entry(
                "sources.import",
                "m",
                "",
                "import an MCP server into the registry: shown exactly, then done by one armed key",
            ),
            Entry("sources.copy", "y", "", "send the row to the terminal's clipboard"),
            Entry("sources.close", "escape q backspace", "", "back to the catalog"),
        ),
    ),
    KeySection(
        "jump",
        "Jump to a tool",
        (
            Entry("jump.up", "up", "", "the tool above"),
            Entry("jump.down", "down", "", "the tool below"),
            Entry("jump.back", "escape", "", "back to where you were"),
        ),
    ),
    KeySection(
        "approvals",
        "Approvals",
        (
            Entry(
                "approvals.batch",
                "B",
                "Batch",
                "approve once each what waits below high risk, read as one table",
            ),
            Entry("approvals.demo", "!", "Demo", "see an approval without any risk"),
        ),
    ),
    KeySection(
        "card",
        "The card",
        (
            Entry("card.approve", "a", "", "approve this one call; for high risk then the letter shown"),
            Entry("card.lease", "l", "", "lease: such calls by this caller, for a time and a number"),
            Entry("card.rule", "u", "", "rule for your policy file, with its end in plain words"),
            Entry("card.edit", "e", "", "edit the input; F2 checks it and shows it as a new card"),
            Entry("card.deny", "d", "", "deny, at once"),
            Entry("card.reason", "r", "", "deny with a reason that the caller is told"),
            Entry("card.quiet", "t", "", "deny, and refuse the same for 10 minutes without asking"),
            Entry("card.block", "b", "", "block the tool for every caller; the same key again confirms"),
            Entry("card.hold", "h", "", "hold: its time stands still; again lets it run on"),
            Entry("card.reveal", "v", "", "reveal masked fields"),
            Entry("card.why", "w", "", "which rule asked, and where it stands"),
            Entry("card.next", "n", "", "next request"),
            Entry("card.previous", "p", "", "previous request"),
            Entry("", "escape", "", "leave it waiting"),
        ),
    ),
    KeySection(
        "question",
        "A question",
        (
            Entry("", "a-letter", "", "the option beside it, armed like a card; never Enter"),
            Entry("", "w", "", "write words to the caller, that go with the answer"),
            Entry("", "n p", "", "next and previous question"),
            Entry("", "escape", "", "leave it waiting"),
        ),
    ),
    KeySection(
        "pair",
        "Typing a code",
        (
            Entry(
                "", "enter", "", "pair with the code that the other console shows; case and dashes are one"
            ),
            Entry("pair.ask", "f2", "", "have another code shown, with three tries of its own"),
            Entry("pair.back", "escape", "", "only look on: everything is shown, nothing can be decided"),
        ),
    ),
    KeySection(
        "pairing",
        "A console that asks",
        (
            Entry("pairing.refuse", "d", "Refuse the console", "its code counts no more, at once"),
            Entry("pairing.back", "escape", "", "back; its code counts until its time is over"),
        ),
    ),
    KeySection("words", "Writing words", (Entry("words.back", "escape", "", "back; nothing is decided"),)),
    KeySection(
        "form",
        "Test call",
        (
            Entry(
                "form.send",
                "f5 ctrl+s",
                "",
                "call the tool, through policy like any caller; Enter never does",
            ),
            Entry(
                "form.insist",
                "f6",
                "Call all the same",
                "though the input does not fit; the kernel judges it",
            ),
            Entry("form.json", "f2", "Input as JSON", "exactly what is sent; again: its fields"),
            Entry("form.example", "f3", "Example", "the tool's next example, then an empty form"),
            Entry("form.before", "left", "", "the choice before"),
            Entry("form.next", "right space", "", "the next choice"),
            Entry("form.list", "enter", "", "the list of all choices"),
            Entry("form.leave-out", "backspace delete", "", "leave a choice out"),
            Entry("form.add-last", "+ enter", "", "on an array: one item more"),
            Entry("form.remove-last", "- backspace delete", "", "on an array: the last item out"),
            Entry("form.add", "f7", "Add an item", "in an array: an item after this one"),
            Entry("form.remove", "f8", "Remove the item", "in an array: without this one"),
            Entry("form.leave", "escape", "", "back; what was written is there again the next time"),
        ),
    ),
    KeySection(
        "call",
        "A test call",
        (Entry("call.again", "t", "Test call again", "the form again, with what was written"),),
    ),
    KeySection(
        "pick",
        "A list of choices",
        (
            Entry("pick.up", "up", "", "the choice above"),
            Entry("pick.down", "down", "", "the choice below"),
            Entry("pick.page-up", "pageup", "", "one screen up"),
            Entry("pick.page-down", "pagedown", "", "one screen down"),
            Entry("pick.back", "escape", "", "back; the choice stays as it was"),
        ),
    ),
    KeySection(
        "edit",
        "Editing an input",
        (
            Entry("edit.submit", "f2 ctrl+s", "", "check the input and show it as a new card"),
            Entry("edit.back", "escape", "", "back to the card"),
        ),
    ),
    KeySection(
        "activity",
        "Activity",
        (
            Entry(
                "activity.filter",
                "/",
                "Filter the calls",
                "filter: words, !word must not occur",
            ),
            Entry("activity.clear", "escape", "Clear the filter", "no filter"),
            Entry("activity.cancel", "k", "Cancel the call", "end the call; the same key again confirms"),
            Entry("activity.copy", "y", "Copy the call as JSON", "send the call to the terminal's clipboard"),
        ),
    ),
    KeySection(
        "call",
        "A call",
        (
            Entry("call.call", "o", "The call", "how it went, with what is short of input and output"),
            Entry("call.picture", "p", "Picture", "images that it made"),
            Entry("call.table", "b", "Table", "an output of rows"),
            Entry("call.text", "x", "Text", "the texts of the output with their line breaks"),
            Entry("call.tree", "t", "Tree", "the output as a tree that opens and closes"),
            Entry("call.input", "i", "Input", "what went in"),
            Entry("call.stderr", "s", "stderr", "what the program said aside"),
            Entry("call.next", "tab", "Next view", "the next way of looking at the call"),
            Entry("call.previous", "shift+tab", "Previous view", "the one before"),
            Entry("call.open", "right l", "", "open the row of the tree, or the next picture"),
            Entry("call.close", "left h", "", "close the row or the one it is in, or the picture before"),
        ),
    ),
    KeySection(
        "grants",
        "Grants",
        (
            Entry("grants.revoke", "d", "Revoke", "end the lease, take out the rule, unblock the tool"),
            Entry("grants.undo", "z", "Undo", "take that back; asks again where more is let through"),
        ),
    ),
    KeySection(
        "audit",
        "Audit",
        (
            Entry(
                "audit.filter", "/", "Filter the log", "filter: every word must occur, !word must not occur"
            ),
            Entry("audit.clear", "escape", "Clear the filter", "no filter"),
            Entry("audit.fatigue", "f", "How much you are asked", "and whether you still read"),
            Entry("audit.verify", "v", "Check the log again", "whether it is as it was written"),
            Entry("audit.copy", "y", "Copy the line as JSON", "send the line to the terminal's clipboard"),
        ),
    ),
    KeySection(
        "doctor",
        "Doctor",
        (
            Entry("doctor.again", "R", "Look again", "look at everything again"),
            Entry("doctor.fix", "F", "Do the fix", "show what would be done about the check, then do it"),
            Entry("doctor.copy", "y", "Copy the checks as JSON", "send them to the terminal's clipboard"),
        ),
    ),
)
ENTRIES: dict[str, Entry] = {entry.id: entry for part in SECTIONS for entry in part.entries if entry.id}
"""Every action that can be given another key, by id."""
