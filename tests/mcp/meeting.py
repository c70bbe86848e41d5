"""Ways to reach sandboxd with the official Python client, and what it is asked over each of them.

The client has no WebSocket transport of its own, so frames go between a socket and a pair of its memory streams."""

import contextlib
import json
import os
import pathlib

import anyio
import httpx2
import jsonschema
import websockets
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

HERE = pathlib.Path(__file__).resolve().parent
BINARY = HERE.parents[1] / "target/release/sandboxd"
ADDRESS = os.environ.get("MCP_ADDRESS", "")  # http://127.0.0.1:PORT, where the server is
PATIENCE = 180  # seconds until something that should have happened counts as hanging


class Failure(Exception):
    """Something is not as it should be."""


def check(holds, *what):
    if not holds:
        raise Failure(" ".join(str(word)[:2000] for word in what))


@contextlib.asynccontextmanager
async def over_websocket(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        websockets.connect(url, additional_headers=headers, subprotocols=["mcp"], max_size=None) as socket,
        create_client_server_memory_streams() as (client, (outgoing, incoming)),
        anyio.create_task_group() as group,
    ):
        check(socket.subprotocol == "mcp", "subprotocol:", socket.subprotocol)

        async def receive():
            async for frame in socket:
                check(isinstance(frame, str), "a frame is not text")
                await incoming.send(SessionMessage(types.jsonrpc_message_adapter.validate_json(frame)))

        async def send():
            async for message in outgoing:
                await socket.send(message.message.model_dump_json(by_alias=True, exclude_unset=True))

        group.start_soon(receive)
        group.start_soon(send)
        yield client
        group.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def over_http(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    timeout = httpx2.Timeout(PATIENCE)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, trust_env=False) as client:
        async with streamable_http_client(url, http_client=client) as streams:
            yield streams


def client(kind, token=None, state=None, **more):
    """A client over `stdio`, `http` or `websocket`; it connects when it is entered."""
    token = token or os.environ.get("MCP_TOKEN", "")
    if kind == "stdio":
        state = state or os.environ["MCP_STATE"]
        where = StdioServerParameters(command=str(BINARY), args=["mcp", "--state-dir", state], env=dict(os.environ))
    elif kind == "http":
        where = over_http(f"{ADDRESS}/mcp", token)
    else:
        where = over_websocket(f"{ADDRESS.replace('http', 'ws', 1)}/mcp/ws", token)
    return Client(where, read_timeout_seconds=PATIENCE, cache=None, **more)


def words(result):
    """All text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def agree(wanted, found):
    """Whether everything that is wanted is there; more may be."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and agree(value, found[key]) for key, value in wanted.items())
    return wanted == found


def filled(value, kept):
    """The same with `$name` replaced by what was kept under that name."""
    text = json.dumps(value)
    for name, what in kept.items():
        text = text.replace(f"${name}", what)
    return json.loads(text)


async def step(client, tools, step, kept):
    """Calls one tool and compares what comes back: text, facts, and facts with the schema that was promised."""
    step = filled(step, kept)
    name = step["tool"]
    result = await client.call_tool(name, step["arguments"])
    shown = f"{name} {json.dumps(step['arguments'])[:300]}: {words(result)}\n{json.dumps(result.structured_content)}"
    check(bool(result.is_error) == step.get("error", False), "isError is", result.is_error, "after", shown)
    check(step.get("text", "") in words(result), repr(step.get("text")), "is not in", shown)
    check(agree(step.get("facts", {}), result.structured_content or {}), step.get("facts"), "is not in", shown)
    if result.structured_content is not None:
        jsonschema.validate(result.structured_content, tools[name].output_schema)
    else:
        check(result.is_error, "no structured content:", shown)
    for name, field in step.get("keep", {}).items():
        kept[name] = result.structured_content[field]
    return result
