# A session through the client of the Python SDK: what it saw, as one line of JSON.
#
#   python sdk.py STORY, where the story has `command`, `args`, `cwd` and four `prompts`
import asyncio
import json
import logging
import os
import sys

import acp
from acp.schema import AllowedOutcome, ClientCapabilities, RequestPermissionResponse


class Client(acp.Client):
    def __init__(self):
        self.seen = {"said": [], "asked": [], "stops": []}
        self.option = None
        self.heard = None

    async def request_permission(self, options, session_id, tool_call, **_):
        self.seen["asked"].append(tool_call.title)
        # As long as a person takes to read.
        await asyncio.sleep(0.4)
        outcome = AllowedOutcome(outcome="selected", option_id=self.option)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        if update.session_update == "agent_message_chunk":
            self.seen["said"].append(update.content.text)
            if self.heard is not None:
                self.heard.set()

    def on_connect(self, conn):
        pass


def is_expected(record):
    # The agent may ask for permission just before its turn is cancelled. The host then withdraws the request by a
    # notification that clients may ignore; this SDK does not know it and reports an error.
    return "$/cancel_request" not in record.getMessage()


async def main():
    logging.getLogger().addFilter(is_expected)
    story = json.loads(sys.argv[1])
    client = Client()
    # Without this it would get a few variables only, and not find its host.
    env = dict(os.environ)
    async with acp.spawn_agent_process(client, story["command"], *story["args"], env=env) as (agent, _):
        started = await agent.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
        client.seen["version"] = started.protocol_version

        async def open_session():
            return (await agent.new_session(cwd=story["cwd"], mcp_servers=[])).session_id

        async def prompt(session, text):
            answer = await agent.prompt(session_id=session, prompt=[acp.text_block(text)])
            return answer.stop_reason

        first, second = await open_session(), await open_session()
        stops = client.seen["stops"]
        client.option = "allow-once"
        stops.append(await prompt(first, story["prompts"][0]))
        client.option = "deny"
        stops.append(await prompt(first, story["prompts"][1]))
        stops.append(await prompt(second, story["prompts"][2]))
        client.heard = asyncio.Event()
        running = asyncio.create_task(prompt(second, story["prompts"][3]))
        await client.heard.wait()
        await agent.cancel(session_id=second)
        stops.append(await running)
        client.seen["said"].append("load")
        await agent.load_session(session_id=first, cwd=story["cwd"], mcp_servers=[])
    print(json.dumps(client.seen))


asyncio.run(main())
