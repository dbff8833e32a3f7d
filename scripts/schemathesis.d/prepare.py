"""Fills a scratch host with something of everything, and prints what generated requests may name."""

import json
import os
import sys

import requests

HOST, PROGRAM, FOLDER = sys.argv[1:4]
SESSION = requests.Session()
SESSION.headers["Authorization"] = "Bearer " + os.environ["COUNTERSIGN_TOKEN"]

ASKING = [{"ask": {
    "tool": {"call": "c1", "title": "Look", "kind": "execute", "input": {"command": "ls"}},
    "placement": "before", "on_allow": [{"say": "yes"}], "on_deny": [{"say": "no"}], "on_cancel": [{"say": "gone"}],
}}]


def send(method, path, body=None):
    answer = SESSION.request(method, f"{HOST}/api/v1/{path}", json=body, timeout=30)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def spawn(name, **options):
    body = {"name": name, "command": [PROGRAM, "demo", "agent"], "cwd": FOLDER, **options}
    return send("POST", "agents/spawn", body)["id"]


agents = [
    spawn("asker", prompt=f"<script>{json.dumps(ASKING)}</script>"),
    spawn("worker", prompt="hello", worktree={}),
    spawn("chief", role="orchestrator"),
    send("POST", "agents", {"name": "outsider", "metadata": [1, None, {"a": "b"}]})["id"],
]
for agent in agents[1:3]:
    send("GET", f"agents/{agent}/wait?until=idle&wait=20s")

approvals = [
    send("POST", "approvals", {"action": "deploy", "details": [None, 1], "tool": "Bash", "input": {"command": "ls"}})["id"]
    for _ in range(4)
]
send("POST", f"approvals/{approvals[0]}/resolution", {"resolution": "approve"})
questions = [send("POST", "questions", {"question": "which?", "timeout_ms": 3_600_000})["id"] for _ in range(3)]
rules = [send("POST", "rules", {"rule": f"Bash(ls {number})"})["id"] for number in range(3)]
own_token = next(token["id"] for token in send("GET", "tokens") if token["name"] == "schemathesis")
tokens = [send("POST", "tokens", {"role": "observer", "name": "spare", "ttl_ms": 3_600_000})["id"] for _ in range(2)]
send("POST", "events", {"kind": "scratch.note", "message": "hello", "payload": None})
send("POST", "events", {"kind": "scratch.note", "message": "hello", "payload": [1, 2]})

json.dump({
    "agent_command": [PROGRAM, "demo", "agent"],
    "folder": FOLDER,
    "catalog": [row["name"] for row in send("GET", "catalog")],
    "own_token": own_token,
    "taken_name": "asker",
    "ids": {
        "/api/v1/agents": agents,
        "/api/v1/approvals": approvals,
        "/api/v1/questions": questions,
        "/api/v1/rules": rules,
        "/api/v1/tokens": tokens,
    },
}, sys.stdout)
