"""Lists and focuses windows of macOS through osascript. Follows Apple's documentation; has never been tried.

The script uses System Events, which requires the accessibility permission for the terminal. Its input comes
as JSON on stdin and is never part of the script.
"""

from __future__ import annotations

import json

from flysidecars.computer.session_type import UNTESTED
from flysidecars.run_program import environment, find_program, run
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed, Unavailable

LIMIT_S = 15.0
REMEDY = "osascript is part of macOS: allow accessibility for the terminal in its privacy settings"
SCRIPT = """
ObjC.import("Foundation");
function run() {
  const data = $.NSFileHandle.fileHandleWithStandardInput.readDataToEndOfFile;
  const asked = JSON.parse($.NSString.alloc.initWithDataEncoding(data, $.NSUTF8StringEncoding).js);
  const found = [];
  for (const owner of Application("System Events").applicationProcesses.whose({visible: true})()) {
    for (const one of owner.windows()) {
      const [x, y] = one.position(), [width, height] = one.size();
      const about = {id: found.length, title: String(one.name()), pid: owner.unixId(), x, y, width, height};
      if (asked.id === about.id && asked.title === about.title) {
        owner.frontmost = true;
        one.actions["AXRaise"].perform();
      }
      found.push(about);
    }
  }
  return JSON.stringify(found);
}
"""


def use_windows(call: Call, action: str) -> JsonObject:
    """List the windows, or give one the focus. An id is a window's position in that one list."""
    windows = _run_script({})
    if action == "list":
        return {"action": "list", "windows": windows, "warnings": [UNTESTED]}
    name = call.text("window")
    exact = [window for window in windows if name in (window["title"], str(window["id"]))]
    matches = exact or [window for window in windows if name in str(window["title"])]
    if len(matches) != 1:
        raise InvalidInput("window", f"{len(matches)} windows match; name one by its title")
    _run_script({"id": matches[0]["id"], "title": matches[0]["title"]})
    return {"action": "focus", "window": matches[0], "warnings": [UNTESTED]}


def _run_script(request: JsonObject) -> list[JsonObject]:
    program = find_program("osascript")
    if program is None:
        raise Unavailable("osascript is not installed", REMEDY)
    argv = (program, "-l", "JavaScript", "-e", SCRIPT)
    ran = run(argv, json.dumps(request).encode(), LIMIT_S, environment())
    if not ran.ok:
        raise ToolFailed(
            "osascript-failed", "osascript failed", exitCode=ran.code, stderr=ran.stderr_text(), remedy=REMEDY
        )
    try:
        windows = json.loads(ran.out)
        return [{**window, "id": int(window["id"]), "title": str(window["title"])} for window in windows]
    except (ValueError, TypeError, KeyError) as broken:
        raise ToolFailed("osascript-failed", "the answer of osascript cannot be read") from broken
