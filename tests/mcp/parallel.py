#!/usr/bin/env python3
"""Fifty clients at once, each with a secret, and two tenants who must not know of each other.

    MCP_ADDRESS=http://127.0.0.1:PORT MCP_TOKEN=… MCP_OTHER_TOKEN=… tests/mcp/parallel.py"""

import json
import os
import secrets
import sys
import time

import anyio
import httpx2
from mcp import MCPError

from meeting import ADDRESS, PATIENCE, Failure, check, client, words

CLIENTS = 50
ROUNDS = 3
REVISION = "2026-07-28"

CODE = """
import time, pathlib
secret = {secret!r}
there = sorted(path.name for path in pathlib.Path('.').glob('secret-*'))
pathlib.Path('secret-' + secret).write_text(secret)
time.sleep(0.05)
print(secret, len(there))
"""


async def one(number, seen):
    """Each round runs alone, then in a session of this client: no one else's secret is ever there."""
    secret = secrets.token_hex(16)
    session = f"parallel-{number}-{secret[:6]}"
    async with client("http", mode="auto" if number % 2 else "legacy") as tools:
        for round in range(ROUNDS):
            code = CODE.format(secret=secret)
            result = await tools.call_tool("execute_code", {"language": "python", "code": code})
            check(result.structured_content["stdout"] == f"{secret} 0\n", "alone:", words(result))
        arguments = {"language": "python", "code": CODE.format(secret=secret), "session_id": session}
        for round in range(2):
            result = await tools.call_tool("execute_code", arguments)
            check(result.structured_content["stdout"] == f"{secret} {round}\n", "in a session:", words(result))
        await tools.call_tool("reset_session", {"session_id": session})
    seen.append(secret)


async def many():
    began = time.monotonic()
    seen = []
    async with anyio.create_task_group() as group:
        for number in range(CLIENTS):
            group.start_soon(one, number, seen)
    check(len(set(seen)) == CLIENTS, "only", len(seen), "clients came through")
    print(f"{CLIENTS} clients, {CLIENTS * (ROUNDS + 2)} runs ({time.monotonic() - began:.1f} s)", flush=True)


async def refused(what, call):
    """What belongs to another tenant is as good as not there."""
    try:
        result = await call
    except MCPError:
        return
    check(result.is_error, what, "is open to another tenant:", words(result))


async def tenants():
    name = f"mine-{secrets.token_hex(4)}"
    other = os.environ["MCP_OTHER_TOKEN"]
    async with client("http") as mine, client("http", token=other) as theirs:
        made = await mine.call_tool("create_sandbox", {})
        sandbox = made.structured_content["sandbox_id"]
        secret = secrets.token_hex(8)
        file = {"sandbox_id": sandbox, "path": "/workspace/secret.txt"}
        await mine.call_tool("write_file", {**file, "content": secret})
        await mine.call_tool("execute_code", {"language": "bash", "code": f"echo {secret} > s", "session_id": name})

        listed = await theirs.call_tool("list_sandboxes", {})
        check(sandbox not in words(listed) and name not in words(listed), "sandboxes:", words(listed))
        uris = [str(resource.uri) for resource in (await theirs.list_resources()).resources]
        check(not any(sandbox in uri or name in uri for uri in uris), "resources:", uris)
        for what, tool, arguments in [
            ("a command", "exec_command", {"sandbox_id": sandbox, "command": "cat secret.txt"}),
            ("code", "run_code", {"sandbox_id": sandbox, "language": "bash", "code": "cat secret.txt"}),
            ("a file", "read_file", file),
            ("a download", "download_file", file),
            ("a write", "write_file", {**file, "content": "x"}),
            ("a list", "list_files", {"sandbox_id": sandbox}),
            ("an end", "terminate_sandbox", {"sandbox_id": sandbox}),
        ]:
            await refused(what, theirs.call_tool(tool, arguments))
        try:
            await theirs.read_resource(f"sandbox://{sandbox}/secret.txt")
        except MCPError:
            pass
        else:
            raise Failure("a resource is open to another tenant")
        result = await theirs.call_tool("execute_code", {"language": "bash", "code": "cat s", "session_id": name})
        check(secret not in words(result).replace("cat s", ""), "a session is shared:", words(result))
        kept = await mine.call_tool("read_file", file)
        check(kept.structured_content["content"] == secret, "the file is another one now:", words(kept))
        async with theirs.listen(resource_subscriptions=[f"sandbox://{sandbox}/secret.txt"]) as heard:
            await mine.call_tool("write_file", {**file, "content": "another"})
            with anyio.move_on_after(2):
                raise Failure(f"another tenant hears of it: {await anext(aiter(heard))}")
        await mine.call_tool("terminate_sandbox", {"sandbox_id": sandbox})
    print("two tenants do not know of each other", flush=True)


async def ask(method, params, token):
    """One request in the way of 2026-07-28 of a client that knows tasks, and the whole answer."""
    extensions = {"io.modelcontextprotocol/tasks": {}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
        "Mcp-Name": params.get("name") or params["taskId"],
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as http:
        answer = await http.post(f"{ADDRESS}/mcp", headers=headers, json=body)
    lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:")]
    return json.loads(lines[-1] if lines else answer.text)


async def tasks():
    """A call that takes long becomes a task, of which no other tenant can know or end anything."""
    mine, theirs = os.environ["MCP_TOKEN"], os.environ["MCP_OTHER_TOKEN"]
    secret = secrets.token_hex(8)
    code = f"import time\ntime.sleep(6)\nprint({secret!r})"
    arguments = {"language": "python", "code": code}
    begun = await ask("tools/call", {"name": "execute_code", "arguments": arguments}, mine)
    check(begun["result"]["resultType"] == "task", "no task:", begun)
    task = {"taskId": begun["result"]["taskId"]}
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        more = {"inputResponses": {}} if method == "tasks/update" else {}
        answer = await ask(method, {**task, **more}, theirs)
        check(answer.get("error", {}).get("code") == -32602, method, "is open to another tenant:", answer)
    with anyio.fail_after(PATIENCE):
        while (answer := await ask("tasks/get", task, mine))["result"]["status"] == "working":
            await anyio.sleep(0.3)
    check(answer["result"]["status"] == "completed", "the task:", answer)
    check(answer["result"]["result"]["structuredContent"]["stdout"] == f"{secret}\n", "the task:", answer)
    print("nor of each other's tasks", flush=True)


async def main():
    await many()
    await tenants()
    await tasks()


if __name__ == "__main__":
    try:
        anyio.run(main)
    except BaseExceptionGroup as group:
        error = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        sys.exit(f"{type(error).__name__}: {error}")
    except Failure as failure:
        sys.exit(str(failure))
