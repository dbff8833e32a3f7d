"""Keeps generated requests inside the scratch host, and lets some of them name things that exist.

Nothing here makes a wrong request right: a value is only replaced by another one of the same shape.
"""

import json
import os
import re
import zlib

import schemathesis
from schemathesis.generation.meta import TestPhase

with open(os.environ["SCRATCH_FACTS"], encoding="utf-8") as file:
    FACTS = json.load(file)

SPAWN = "/api/v1/agents/spawn"
FORK = "/api/v1/agents/{id}/fork"
TERMINALS = "/api/v1/terminals"
# Agents that run at one time cost memory. After this many, new ones get a name that is taken.
AGENTS_MAX = 12
started = 0

VALID_WAIT = re.compile(r"[0-9]+(ms|s|m|h)?")


def is_text_list(value):
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def confine_spawn(body):
    """The only program that is ever started is the scripted agent, in a folder made for it."""
    if is_text_list(body.get("command")):
        body["command"] = FACTS["agent_command"]
        # One of the two says what to start; the document cannot say that.
        if isinstance(body.get("agent"), str):
            del body["agent"]
    if isinstance(body.get("cwd"), str) and body["cwd"].startswith("/"):
        body["cwd"] = FACTS["folder"]
    if body.get("agent") in FACTS["catalog"]:
        body["agent"] = "none-such"
    # The agent's environment stays what the host gives it.
    if isinstance(body.get("env"), list):
        for variable in body["env"]:
            if isinstance(variable, dict) and isinstance(variable.get("name"), str):
                variable["name"] = "SCRATCH_" + re.sub(r"\W", "_", variable["name"], flags=re.ASCII)


def confine_paths(body):
    """Files and folders outside the scratch folder are nobody's business here."""
    for name in ("cwd", "project", "file"):
        if isinstance(body.get(name), str) and body[name].startswith("/"):
            body[name] = FACTS["folder"]


def confine_terminal(body):
    """Whatever is typed there ends its program and is run by none."""
    if isinstance(body.get("command", ""), str):
        body["command"] = "read line"


def choose_known_id(path, value):
    """Every second generated id becomes one that was there before."""
    known = next((ids for prefix, ids in FACTS["ids"].items() if path.startswith(prefix)), [])
    pick = zlib.crc32(value.encode("utf-8", "surrogatepass"))
    return known[pick // 2 % len(known)] if known and pick % 2 else value


def bound_waiting(case):
    """A request that would wait for a person waits a moment instead."""
    takes_wait = any(parameter.name == "wait" for parameter in case.operation.query)
    if not takes_wait:
        return
    query = case.query if isinstance(case.query, dict) else {}
    wait = query.get("wait")
    if wait is None or (isinstance(wait, str) and VALID_WAIT.fullmatch(wait)):
        case.query = {**query, "wait": "5ms"}


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.path
    if isinstance(case.body, dict):
        if path == SPAWN:
            confine_spawn(case.body)
        if path == TERMINALS:
            confine_terminal(case.body)
        confine_paths(case.body)
        if path in (SPAWN, FORK) and started >= AGENTS_MAX:
            case.body["name"] = FACTS["taken_name"]
    identifier = case.path_parameters.get("id") if case.path_parameters else None
    if isinstance(identifier, str) and identifier:
        # Requests that follow one another name what the one before made.
        follows = case.meta is not None and case.meta.phase.name == TestPhase.STATEFUL
        chosen = identifier if follows else choose_known_id(path, identifier)
        # The token of this run is the one thing that must not be withdrawn.
        case.path_parameters["id"] = "own" if chosen == FACTS["own_token"] else chosen
    bound_waiting(case)
    # A stream of events has no end; tests of ours read it.
    if case.headers and "text/event-stream" in str(case.headers.get("Accept", "")):
        case.headers["Accept"] = "application/json"


@schemathesis.hook
def after_call(context, case, response):
    global started
    if case.path in (SPAWN, FORK) and response.status_code == 200:
        started += 1
