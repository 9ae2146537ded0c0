"""The table of all keys of the console: id, default and meaning. It imports no Textual.

The key lines, the help, the palette and `flytui config show` are made from this table, and a test compares it
with the bindings. A key is written as a person writes it: `/`, `ctrl+p`, `f5`, `enter`. Spaces separate
several keys of one action. An entry without an id has a fixed key.
"""

from __future__ import annotations

import msgspec


class KeyAction(msgspec.Struct, frozen=True):
    """One action of a screen."""

    id: str
    """`<screen>.<action>`, which `keys` in config.jsonc names; `""` where the key is fixed."""
    keys: str
    title: str
    """The action's name in the palette; `""` where the palette does not offer it."""
    words: str

    @property
    def default_keys(self) -> tuple[str, ...]:
        """The default keys as a tuple."""
        return tuple(self.keys.split())


class KeySection(msgspec.Struct, frozen=True):
    """The actions of one screen."""

    screen: str
    """The part of the ids before the dot."""
    title: str
    entries: tuple[KeyAction, ...]


SECTIONS: tuple[KeySection, ...] = (
    KeySection(
        "app",
        "Everywhere",
        (
            KeyAction(
                "app.panic", "ctrl+x", "", "stop everything, pressed twice within a second; in text too"
            ),
            KeyAction(
                "app.card",
                "ctrl+o",
                "Open request",
                "the request that waits longest; where none does, the first question; releases a stop",
            ),
            KeyAction("app.trust", "T", "Trust", "entries of the registry that wait for trust"),
            KeyAction(
                "app.pair",
                "P",
                "Pair",
                "type the code of the console that has the kernel; there: see which console asks",
            ),
            KeyAction(
                "app.take",
                "O",
                "Take the root",
                "the other console's kernel is gone: open one here, with its requests that wait",
            ),
            KeyAction(
                "app.root",
                "ctrl+r",
                "Next root",
                "with several roots: show the catalog, calls, grants, log and checks of the next one",
            ),
            KeyAction("", "ctrl+p", "", "command palette"),
            KeyAction("app.help", "?", "Help", "this page: the keys of this screen first, then all others"),
            KeyAction("app.leave", "ctrl+q", "Quit", "quit; asks first and says what would end"),
            KeyAction(
                "app.suspend", "ctrl+z", "Suspend", "back to your shell; fg takes the console up again"
            ),
            KeyAction("app.say-quit", "ctrl+c", "", "ends nothing; says how to quit"),
        ),
    ),
    KeySection(
        "main",
        "Screens",
        (
            KeyAction("main.catalog", "1", "Catalog", "which tools there are, and their state"),
            KeyAction("main.approvals", "2", "Approvals", "what waits for you"),
            KeyAction("main.activity", "3", "Activity", "calls running and finished"),
            KeyAction("main.grants", "4", "Grants", "leases, rules and blocks in force"),
            KeyAction("main.audit", "5", "Audit", "the log of all that happened"),
            KeyAction("main.packages", "6", "Packages", "packages of sidecars: stage, review, apply, back"),
            KeyAction("main.doctor", "7", "Doctor", "checks of everything flytui needs, with what to do"),
            KeyAction("main.leave", "q", "", "quit; asks first and says what would end"),
            KeyAction("main.note", "n", "", "dismiss a note of the first start"),
        ),
    ),
    KeySection(
        "list",
        "Lists",
        (
            KeyAction("list.up", "up k", "", "one row up"),
            KeyAction("list.down", "down j", "", "one row down"),
            KeyAction("list.page-up", "pageup", "", "one screen up"),
            KeyAction("list.page-down", "pagedown", "", "one screen down"),
            KeyAction("list.first", "home", "", "the first row"),
            KeyAction("list.last", "end", "", "the last row"),
            KeyAction("list.open", "enter", "Open the row", "details, the card, or what became of it"),
        ),
    ),
    KeySection(
        "page",
        "Pages",
        (
            KeyAction("page.close", "escape q backspace", "Back", "back to where you were"),
            KeyAction(
                "page.copy", "y", "Copy as JSON", "send what the page shows to the terminal's clipboard"
            ),
            KeyAction("page.up", "up k", "", "one line up"),
            KeyAction("page.down", "down j", "", "one line down"),
        ),
    ),
    KeySection(
        "help",
        "Help",
        (
            KeyAction(
                "help.search", "s", "", "look for a key by its words; so does the help key, pressed again"
            ),
        ),
    ),
    KeySection(
        "catalog",
        "Catalog",
        (
            KeyAction(
                "catalog.filter",
                "/",
                "Filter the catalog",
                "filter: words, state: risk: sidecar: policy: source:, !opposite",
            ),
            KeyAction(
                "catalog.test-call",
                "t",
                "Test call",
                "write an input in a form made from the tool's schema, and call it",
            ),
            KeyAction("catalog.jump", ":", "Jump to a tool", "some letters of its name, then Enter"),
            KeyAction("catalog.group", "g", "Group", "by family, or by sidecar"),
            KeyAction("catalog.why", "w", "Why", "why it has its state, and what policy says about a call"),
            KeyAction(
                "catalog.difference", "D", "Difference", "what changed since it was trusted and approved"
            ),
            KeyAction("catalog.clear", "escape", "Clear the filter", "no filter"),
            KeyAction("catalog.ladder", "s", "Ladder", "show or hide the stability ladder beside the list"),
            KeyAction(
                "catalog.fix",
                "F",
                "Fix",
                "the fix a reason offers: shown exactly, then done by one armed key",
            ),
            KeyAction("catalog.enable", "E", "Switch on", "switch the sidecar on in its registry file"),
            KeyAction(
                "catalog.disable",
                "X",
                "Switch off",
                "switch the sidecar off, with a reason that everyone sees",
            ),
            KeyAction(
                "catalog.init",
                "i",
                "First registry",
                "what flytui brings and what of it works here: tick it, and have it written",
            ),
            KeyAction(
                "catalog.probe", "R", "Probe again", "ask the sidecar under the cursor whether it is well"
            ),
            KeyAction(
                "catalog.problems", "p", "Problems", "problems found in registry, policy and settings files"
            ),
            KeyAction(
                "catalog.sources",
                "K",
                "Kits and sources",
                "kits, skills, plugins and other clients' MCP servers: read, never run",
            ),
            KeyAction(
                "catalog.copy", "y", "Copy the tool as JSON", "send the tool to the terminal's clipboard"
            ),
        ),
    ),
    KeySection(
        "sources",
        "Kits and sources",
        (
            KeyAction(
                "sources.import",
                "m",
                "",
                "import an MCP server into the registry: shown exactly, then done by one armed key",
            ),
            KeyAction("sources.copy", "y", "", "send the row to the terminal's clipboard"),
            KeyAction("sources.close", "escape q backspace", "", "back to the catalog"),
        ),
    ),
    KeySection(
        "starter",
        "First registry",
        (
            KeyAction("starter.tick", "space", "", "tick the entry, or leave it out"),
            KeyAction("starter.close", "escape q backspace", "", "back; nothing is written"),
        ),
    ),
    KeySection(
        "jump",
        "Jump to a tool",
        (
            KeyAction("jump.up", "up", "", "the tool above"),
            KeyAction("jump.down", "down", "", "the tool below"),
            KeyAction("jump.back", "escape", "", "back to where you were"),
        ),
    ),
    KeySection(
        "approvals",
        "Approvals",
        (
            KeyAction(
                "approvals.batch",
                "B",
                "Batch",
                "a table of what waits: tick below high risk and approve, or deny a caller",
            ),
            KeyAction(
                "approvals.unfold", "space", "Unfold the requests", "alike requests each in a row, or in one"
            ),
            KeyAction("approvals.demo", "!", "Demo", "see an approval without any risk"),
        ),
    ),
    KeySection(
        "card",
        "The card",
        (
            KeyAction("card.approve", "a", "", "approve this one call; for high risk then the letter shown"),
            KeyAction(
                "card.lease", "l", "", "allow for a while: such calls by this caller, for a time and a number"
            ),
            KeyAction("card.rule", "u", "", "rule for your policy file, with its end in plain words"),
            KeyAction("card.edit", "e", "", "edit the input; F2 checks it and shows it as a new card"),
            KeyAction("card.deny", "d", "", "deny, at once"),
            KeyAction("card.reason", "r", "", "deny with a reason that the caller is told"),
            KeyAction("card.quiet", "t", "", "deny, and refuse the same for 10 minutes without asking"),
            KeyAction("card.block", "b", "", "block the tool for every caller; the same key again confirms"),
            KeyAction("card.hold", "h", "", "hold: stop its time-out; the same key lets it run on"),
            KeyAction("card.reveal", "v", "", "reveal masked fields"),
            KeyAction("card.why", "w", "", "which rule asked; all of reach, program and caller"),
            KeyAction("card.json", "x", "", "the input as the JSON that is approved, with its digest"),
            KeyAction("card.unfold", "f", "", "unfold long values, or fold them again"),
            KeyAction("card.next", "n", "", "next request"),
            KeyAction("card.previous", "p", "", "previous request"),
            KeyAction("", "escape", "", "leave it waiting"),
        ),
    ),
    KeySection(
        "batch",
        "The batch",
        (
            KeyAction("", "space", "", "tick the request under the cursor, once all of it was on screen"),
            KeyAction(
                "", "A", "", "show how many are ticked and the highest risk; then a approves them once each"
            ),
            KeyAction("", "D", "", "deny all requests of the caller under the cursor, with one reason"),
            KeyAction("", "escape", "", "back; nothing is decided"),
        ),
    ),
    KeySection(
        "trust",
        "Trust",
        (
            KeyAction("", "a", "", "trust what is ticked, once all that is listed or unfolded was on screen"),
            KeyAction(
                "", "enter", "", "unfold the entry under the cursor: what it would run, whole; or fold it"
            ),
            KeyAction("", "space", "", "leave the entry out, or tick it again"),
            KeyAction("", "escape", "", "trust nothing now"),
        ),
    ),
    KeySection(
        "question",
        "A question",
        (
            KeyAction("", "a-letter", "", "the option beside it, armed like a card; never Enter"),
            KeyAction("", "w", "", "write a reply to the caller, which is sent with the answer"),
            KeyAction("", "n p", "", "next and previous question"),
            KeyAction("", "escape", "", "leave it waiting"),
        ),
    ),
    KeySection(
        "pair",
        "Typing a code",
        (
            KeyAction(
                "",
                "enter",
                "",
                "pair with the code that the other console shows, in any case, without dashes",
            ),
            KeyAction("pair.ask", "f2", "", "have another code shown, with three tries of its own"),
            KeyAction("pair.back", "escape", "", "stay a viewer: you see everything and decide nothing"),
        ),
    ),
    KeySection(
        "pairing",
        "A console that asks",
        (
            KeyAction("pairing.refuse", "d", "Refuse the console", "its code is no longer valid, at once"),
            KeyAction("pairing.back", "escape", "", "back; its code stays valid until it expires"),
        ),
    ),
    KeySection(
        "words", "Writing words", (KeyAction("words.back", "escape", "", "back; nothing is decided"),)
    ),
    KeySection(
        "form",
        "Test call",
        (
            KeyAction(
                "form.send",
                "f5 ctrl+s",
                "",
                "call the tool, through policy like any caller; Enter never does",
            ),
            KeyAction(
                "form.insist",
                "f6",
                "Call all the same",
                "call although the input does not fit; the kernel judges it",
            ),
            KeyAction("form.json", "f2", "Input as JSON", "exactly what is sent; again: its fields"),
            KeyAction("form.example", "f3", "Example", "the tool's next example, then an empty form"),
            KeyAction("form.before", "left", "", "the choice before"),
            KeyAction("form.next", "right space", "", "the next choice"),
            KeyAction("form.list", "enter", "", "the list of all choices"),
            KeyAction("form.leave-out", "backspace delete", "", "leave a choice out"),
            KeyAction("form.add-last", "+ enter", "", "on an array: one item more"),
            KeyAction("form.remove-last", "- backspace delete", "", "on an array: the last item out"),
            KeyAction("form.add", "f7", "Add an item", "in an array: an item after this one"),
            KeyAction("form.remove", "f8", "Remove the item", "in an array: without this one"),
            KeyAction("form.leave", "escape", "", "back; what you wrote is kept for the next time"),
        ),
    ),
    KeySection(
        "call",
        "A test call",
        (KeyAction("call.again", "t", "Test call again", "the form again, with what was written"),),
    ),
    KeySection(
        "pick",
        "A list of choices",
        (
            KeyAction("pick.up", "up", "", "the choice above"),
            KeyAction("pick.down", "down", "", "the choice below"),
            KeyAction("pick.page-up", "pageup", "", "one screen up"),
            KeyAction("pick.page-down", "pagedown", "", "one screen down"),
            KeyAction("pick.back", "escape", "", "back; the choice stays as it was"),
        ),
    ),
    KeySection(
        "edit",
        "Editing an input",
        (
            KeyAction("edit.submit", "f2 ctrl+s", "", "check the input and show it as a new card"),
            KeyAction("edit.back", "escape", "", "back to the card"),
        ),
    ),
    KeySection(
        "activity",
        "Activity",
        (
            KeyAction(
                "activity.filter",
                "/",
                "Filter the calls",
                "filter: words, caller: tool: today yesterday, !word must not occur",
            ),
            KeyAction("activity.clear", "escape", "Clear the filter", "no filter"),
            KeyAction("activity.cancel", "k", "Cancel the call", "end the call; the same key again confirms"),
            KeyAction(
                "activity.copy", "y", "Copy the call as JSON", "send the call to the terminal's clipboard"
            ),
            KeyAction("activity.unfold", "space", "Unfold the calls", "alike calls each in a row, or in one"),
        ),
    ),
    KeySection(
        "call",
        "A call",
        (
            KeyAction("call.call", "c", "The call", "how the call went, with short input and output"),
            KeyAction("call.picture", "p", "Picture", "images that it made"),
            KeyAction("call.file", "o", "Open the picture", "open the picture's file in the system's viewer"),
            KeyAction("call.table", "b", "Table", "an output of rows"),
            KeyAction("call.text", "x", "Text", "the texts of the output with their line breaks"),
            KeyAction("call.tree", "t", "Tree", "the output as a tree that opens and closes"),
            KeyAction("call.input", "i", "Input", "what went in"),
            KeyAction("call.stderr", "s", "stderr", "what the program wrote to stderr"),
            KeyAction("call.undo", "z", "Undo", "give the files that it changed back what they were"),
            KeyAction("call.decision", "d", "Decision", "the card on which it was decided"),
            KeyAction("call.log", "g", "Log lines", "what the log has of the call"),
            KeyAction("call.files", "f", "Files", "the files that it made"),
            KeyAction("call.next", "tab", "Next view", "the next way of looking at the call"),
            KeyAction("call.previous", "shift+tab", "Previous view", "the one before"),
            KeyAction("call.open", "right l", "", "open the row of the tree, or the next picture"),
            KeyAction("call.close", "left h", "", "close the row or the one it is in, or the picture before"),
        ),
    ),
    KeySection(
        "grants",
        "Grants",
        (
            KeyAction("grants.revoke", "d", "Revoke", "end the lease, take out the rule, unblock the tool"),
            KeyAction("grants.undo", "z", "Undo", "undo that; asks again where more calls would run unasked"),
        ),
    ),
    KeySection(
        "audit",
        "Audit",
        (
            KeyAction(
                "audit.filter", "/", "Filter the log", "filter: words, caller: tool: today yesterday, !not"
            ),
            KeyAction("audit.clear", "escape", "Clear the filter", "no filter"),
            KeyAction("audit.fatigue", "f", "How much you are asked", "and whether you still read"),
            KeyAction("audit.verify", "v", "Check the log again", "whether anyone changed the log"),
            KeyAction(
                "audit.copy", "y", "Copy the line as JSON", "send the line to the terminal's clipboard"
            ),
        ),
    ),
    KeySection(
        "packages",
        "Packages",
        (
            KeyAction(
                "packages.stage",
                "s",
                "Stage a package",
                "check and unpack a version for this project; what runs does not change",
            ),
            KeyAction(
                "packages.stage-user", "S", "Stage a package of yours", "the same, for you in every project"
            ),
            KeyAction(
                "packages.apply",
                "a",
                "Apply the staged version",
                "what it changes is shown whole, then one armed key applies it",
            ),
            KeyAction(
                "packages.rollback",
                "b",
                "Roll back",
                "back to the version before: shown exactly, then done by one armed key",
            ),
            KeyAction(
                "packages.remove",
                "x",
                "Remove the package",
                "its files and its entry: shown exactly, then done by one armed key",
            ),
            KeyAction(
                "packages.discard", "d", "Discard the staged version", "what is installed stays as it is"
            ),
            KeyAction(
                "packages.verify", "v", "Verify the packages", "whether their files are those installed"
            ),
            KeyAction(
                "packages.copy", "y", "Copy the package as JSON", "send it to the terminal's clipboard"
            ),
        ),
    ),
    KeySection(
        "doctor",
        "Doctor",
        (
            KeyAction("doctor.again", "R", "Look again", "look at everything again"),
            KeyAction("doctor.fix", "F", "Do the fix", "show what would be done about the check, then do it"),
            KeyAction("doctor.copy", "y", "Copy the checks as JSON", "send them to the terminal's clipboard"),
        ),
    ),
)
ENTRIES: dict[str, KeyAction] = {entry.id: entry for part in SECTIONS for entry in part.entries if entry.id}
"""Every action that can be given another key, by id."""
