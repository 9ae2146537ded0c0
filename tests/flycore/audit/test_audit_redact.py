"""Suite S13, the log's part: what a caller wrote under a telling name is not kept."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.audit.events import tool_called, tool_executed
from flycore.audit.redact import names_secret, redact, redact_text
from flycore.model.call import Caller, CallError, CallRequest, ToolResult
from flycore.model.enums import Code, Status
from kits.suites import examples
from kits.tables import each_row

VALUE = "hunter2-Xy"
MARK = f"•••({len(VALUE)}:{hashlib.sha256(VALUE.encode()).hexdigest()[:8]})"


@each_row(
    "name",
    [
        *("password", "Password", "PASSWORD", "userPassword", "db_passwd", "DB_PASS", "pwd", "passphrase"),
        *("token", "accessToken", "access_token", "csrf-token", "X-Auth-Token", "refreshTokens", "idToken2"),
        *("secret", "client_secret", "clientSecret", "api_key", "apiKey", "apikey", "API-KEY", "x-api-key"),
        *("Authorization", "proxy-authorization", "cookie", "Set-Cookie", "cookies", "credentials", "otp"),
        *("privateKey", "private_key", "AWSSecretAccessKey", "secretKey", "sessionId", "pin", "HTTPPassword"),
    ],
)
def test_a_telling_name_hides_its_value(name: str) -> None:
    assert names_secret(name)
    for value in ({name: VALUE}, {"deep": [{name: VALUE}]}, {name: [VALUE, {"a": VALUE}]}):
        shown = json.dumps(redact(value), ensure_ascii=False)
        assert VALUE not in shown
        assert MARK in shown


@each_row(
    "name",
    [
        *("path", "text", "key", "keys", "keyboard", "action", "author", "authority", "tokenizer", "passage"),
        *(
            "monkey",
            "compass",
            "secretary",
            "cookiecutter",
            "spinner",
            "passed",
            "url",
            "query",
            "signal",
            "",
        ),
    ],
)
def test_an_ordinary_name_hides_nothing(name: str) -> None:
    assert not names_secret(name)
    assert redact({name: VALUE}) == {name: VALUE}


@each_row(
    "text",
    [
        *("https://user:{}@host/path", "https://{}@host/path?q=1#there", "postgres://u:a@{}@db:5432/x"),
        *("https://host/?token={}&page=2", "https://host/x?a=1&api_key={}", "https://h/#access_token={}&x=1"),
        *("Authorization: Bearer {}", "authorization: Basic {}", "-H 'Authorization: token {}'"),
        *("Cookie: sid={}; other=1", "Set-Cookie: a={}; Path=/", "call it with Bearer {} please"),
        *("API_KEY={} run", "export DB_PASS='{}'", "mysql --password={} -h db", "tool --password {} x"),
        *('{{"user": "u", "password": "{}"}}', "{{'password': '{}'}}", '{{\\"token\\":\\"{}\\"}}'),
        *("password: {}", "note:password={}", "C:\\x y.secret = {}", "a=b&c=d&secret={}", "_token={}"),
    ],
)
def test_texts_lose_what_they_give_away(text: str) -> None:
    shown = redact_text(text.format(VALUE))
    assert VALUE not in shown
    assert "•••(" in shown
    assert shown[0] == text[0], "the rest stays"


@each_row(
    "text",
    [
        *("hello from an agent", "ctrl+shift+t", "https://host:8080/a/b?page=2&sort=key#top", "a: b", "x=1"),
        *("ls -la --color=auto", "git@github.com:org/repo.git", "C:\\Users\\me", "12:30:00", "f(a=1, b=2)"),
        *("mailto:someone@host", "password", "--password", "token", "src/token.py", "key=value", "🦋 = ok"),
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redact_text(text) == text


def test_what_is_kept_beside_it() -> None:
    given_: Any = {
        "url": "https://host/x",
        "maxTokens": 4096,
        "tokenCount": 3,
        "remember_password": True,
        "token": None,
        "secret": "",
        "pin": 1234,
        "headers": [{"name": "Authorization", "value": VALUE}, {"name": "Accept", "value": "*/*"}],
        "argv": ["login", "--password", VALUE, "--user", "me"],
    }
    shown: Any = redact(given_)
    assert VALUE in json.dumps(given_), "nothing is changed in place"
    assert VALUE not in json.dumps(shown)
    for kept in ("url", "maxTokens", "tokenCount", "remember_password", "token", "secret"):
        assert shown[kept] == given_[kept]
    assert shown["pin"].startswith("•••(4:")
    assert shown["headers"] == [{"name": "Authorization", "value": MARK}, {"name": "Accept", "value": "*/*"}]
    assert shown["argv"] == ["login", "--password", MARK, "--user", "me"]


def test_equal_values_can_be_told_from_others() -> None:
    assert redact({"a_token": VALUE})["a_token"] == redact({"b_token": VALUE})["b_token"]  # type: ignore[index,call-overload] # an object
    assert redact({"token": "1" * 10}) != redact({"token": "2" * 10})


def test_depth_has_an_end() -> None:
    nested: Any = {"password": VALUE}
    for _ in range(300):
        nested = [nested]
    assert VALUE not in json.dumps(redact(nested))


TEXTS = st.text(
    st.sampled_from("""abP:/@?&=;"'\\ -_.(){}[]•\n""") | st.characters(), max_size=60
) | st.sampled_from(["password", "://", "token=", "Cookie: ", "Bearer ", '\\"', "--secret "])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=examples(300))
@given(VALUES, st.lists(TEXTS, max_size=6).map("".join))
def test_doing_it_twice_changes_nothing_more(value: Any, text: str) -> None:
    once = redact([value, text])
    assert redact(once) == once


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(TEXTS, max_size=3).map("".join), st.sampled_from(["&", " ", ";", "\n", '"', ""]))
def test_whatever_stands_before_it_the_parameter_is_hidden(before: str, gap: str) -> None:
    text = f"{before}\n?x=1&token={VALUE}{gap}"
    assert VALUE not in redact_text(text)


def request(**input: Any) -> CallRequest:
    caller = Caller(door="socket", program="agent", pid=1, started=1)
    return CallRequest(call_id="c-1", tool="web.fetch", input=input, caller=caller, said=f"token={VALUE}")


def test_the_line_of_a_call_says_that_something_is_missing() -> None:
    line = tool_called(request(), {"password": VALUE, "url": f"https://u:{VALUE}@host/"})
    assert VALUE not in json.dumps(line)
    assert line["redacted"] is True
    assert line["input"] == {"password": MARK, "url": f"https://{redact({'pw': f'u:{VALUE}'})['pw']}@host/"}  # type: ignore[index,call-overload] # an object
    assert "redacted" not in tool_called(request(), {"url": "https://host/"})


def test_an_error_that_quotes_an_input_is_not_kept_word_by_word() -> None:
    quoted = {"pointer": "/login/password", "message": f'"{VALUE}" is shorter than 12 characters'}
    error = CallError(
        code=Code.INVALID_INPUT,
        message=f"the input does not fit: /login/password: {quoted['message']}",
        details={"violations": [quoted]},
    )
    result = ToolResult(status=Status.FAILED, tool="web.login", sidecar=None, call_id="c-1", error=error)
    line = tool_executed(result, request().caller)
    assert VALUE not in json.dumps(line)
    assert "/login/password" in str(line["message"])
