#!/usr/bin/env python3
"""The official Python client uses every tool, over every transport, and does not take its word for anything.

    MCP_ADDRESS=http://127.0.0.1:PORT MCP_TOKEN=… MCP_STATE=DIR tests/mcp/client.py [stdio|http|websocket]..."""

import base64
import json
import struct
import sys
import time
import warnings
import zlib

import anyio
import jsonschema
from mcp import MCPError, types

from meeting import HERE, Failure, check, client, step, words

MEGABYTE = 1 << 20


def picture():
    """A PNG of one red point."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


async def python(session, code, **more):
    return await session.call_tool("execute_code", {"language": "python", "code": code, **more})


async def every_tool(session, tools, run):
    kept = {"run": run}
    table = json.loads((HERE / "tools.json").read_text())
    for row in table:
        check(row["tool"] in tools, "there is no tool", row["tool"])
        await step(session, tools, row, kept)
    missed = set(tools) - {row["tool"] for row in table}
    check(not missed, "nobody tries", sorted(missed))


async def described(session, tools, run):
    for tool in tools.values():
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
        check(tool.title and tool.description and tool.annotations, tool.name, "is not described")
        check(tool.input_schema["additionalProperties"] is False, tool.name, "takes anything")


async def blocks(session, tools, run):
    """The source, a block for each line, and the end: each says what it is."""
    code = "import sys\nprint('one')\nprint('two', file=sys.stderr)"
    result = await python(session, code)
    shown = [block.model_dump(by_alias=True, exclude_none=True) for block in result.content]
    about = lambda block, key: {**block.get("_meta", {}), **block.get("annotations", {})}.get(key)
    check(shown[0]["text"] == code, "the source comes first:", shown)
    lines = [(about(block, "role"), block["text"]) for block in shown if about(block, "streamed")]
    check(sorted(lines) == [("stderr", "two"), ("stdout", "one")], "lines:", lines)
    check(about(shown[-1], "role") == "metadata" and about(shown[-1], "final") is True, "the end:", shown[-1])


async def progress(session, tools, run):
    """What is printed is told at once, and not when the program is over."""
    told = []

    async def hear(progress, total, message):
        told.append((time.monotonic(), message or ""))

    code = "import time\nprint('first', flush=True)\ntime.sleep(3)\nprint('second', flush=True)"
    result = await session.call_tool("execute_code", {"language": "python", "code": code}, progress_callback=hear)
    end = time.monotonic()
    check(result.structured_content["stdout"] == "first\nsecond\n", "output:", result.structured_content)
    first = [at for at, message in told if "first" in message]
    check(first, "nothing was told of the first line:", told)
    check(end - first[0] > 2, f"the first line was told {end - first[0]:.1f} s before the end, of 3 s")


async def cancelling(session, tools, run):
    """Whoever does not want to know any more ends the program."""
    name = f"cancel-{run}"
    await python(session, "print('there')", session_id=name)
    late = "import time\nopen('begun', 'w').close()\ntime.sleep(4)\nopen('late', 'w').close()"
    with anyio.move_on_after(2.5) as scope:
        await python(session, late, session_id=name)
    check(scope.cancelled_caught, "it was over before it was cancelled")
    await anyio.sleep(3)
    result = await session.call_tool("list_files", {"sandbox_id": name})
    names = {file["name"] for file in result.structured_content["files"]}
    check("begun" in names and "late" not in names, "after cancelling there are", names)


async def large(session, tools, run):
    filler = "x" * (MEGABYTE - 100)
    result = await python(session, f"print(len('{filler}'))")
    check(result.structured_content["stdout"] == f"{len(filler)}\n", "a program of 1 MiB:", words(result)[:200])
    result = await python(session, "import sys\nsys.stdout.write('line of output\\n' * 333334)")
    facts = result.structured_content
    check(len(facts["stdout"]) == 15 * 333334, "5 MB of output:", len(facts["stdout"]))
    check(facts["stdout_truncated"] is False, "5 MB of output are cut")


async def pictures(session, tools, run):
    content = base64.b64encode(picture()).decode()
    result = await python(session, f"import base64\nopen('dot.png', 'wb').write(base64.b64decode('{content}'))")
    images = [block for block in result.content if block.type == "image"]
    check([(image.mime_type, image.data) for image in images] == [("image/png", content)], "pictures:", result.content)


async def resources(session, tools, run):
    name = f"resources-{run}"
    await python(session, "open('ä b.txt', 'w').write('inside')", session_id=name)
    templates = (await session.list_resource_templates()).resource_templates
    check(any(template.uri_template.startswith("sandbox://") for template in templates), "templates:", templates)
    uris, cursor = [], None
    while True:
        page = await session.list_resources(cursor=cursor)
        uris += [resource.uri for resource in page.resources]
        cursor = page.next_cursor
        if cursor is None:
            break
    mine = [str(uri) for uri in uris if str(uri).startswith(f"sandbox://{name}/")]
    check(len(mine) == 1, "resources:", uris)
    read = await session.read_resource(mine[0])
    check(read.contents[0].text == "inside", "contents:", read.contents)
    for wrong in (f"sandbox://{name}/nothing", "sandbox://nobody/x", "file:///etc/passwd"):
        try:
            await session.read_resource(wrong)
        except MCPError:
            continue
        raise Failure(f"{wrong} can be read")


async def listening(session, tools, run):
    """Whoever listens for a file hears of it, whether a tool or a program has changed it, and of no other file."""
    name = f"listening-{run}"
    await python(session, "open('heard.txt', 'w').write('1')", session_id=name)
    uri = f"sandbox://{name}/heard.txt"
    async with session.listen(resource_subscriptions=[uri]) as heard:
        for path in ("other.txt", "heard.txt"):
            arguments = {"sandbox_id": name, "path": f"/workspace/{path}", "content": "2"}
            await session.call_tool("write_file", arguments)
        with anyio.fail_after(10):
            check((await anext(aiter(heard))).uri == uri, "a file that a tool has written")
        await python(session, "open('heard.txt', 'w').write('3')", session_id=name)
        with anyio.fail_after(10):
            check((await anext(aiter(heard))).uri == uri, "a file that a program has written")


async def prompts(session, tools, run):
    names = [prompt.name for prompt in (await session.list_prompts()).prompts]
    check("solve_with_code" in names, "prompts:", names)
    prompt = await session.get_prompt("solve_with_code", {"question": "what is 6 times 7?"})
    check("what is 6 times 7?" in prompt.messages[0].content.text, "prompt:", prompt)
    ref = types.PromptReference(type="ref/prompt", name="solve_with_code")
    values = (await session.complete(ref, {"name": "language", "value": "py"})).completion.values
    check(values == ["python"], "completions:", values)


async def refusals(session, tools, run):
    """What is wrong is named."""
    for field, tool, arguments in [
        ("code", "execute_code", {"language": "python"}),
        ("language", "execute_code", {"language": "klingon", "code": "x"}),
        ("colour", "execute_code", {"language": "python", "code": "1", "colour": "red"}),
        ("timeout", "execute_code", {"language": "python", "code": "1", "timeout": -1}),
        ("timeout", "run_python", {"code": "1", "timeout": 301}),
        ("sandbox_id", "exec_command", {"command": "true"}),
        ("path", "read_file", {"sandbox_id": "x", "path": "/etc/passwd"}),
        ("memory_limit", "create_sandbox", {"memory_limit": "plenty"}),
    ]:
        result = await session.call_tool(tool, arguments)
        check(result.is_error and field in words(result), tool, arguments, "is answered", words(result))
    try:
        await session.call_tool("no_such_tool", {})
    except MCPError as error:
        check("no_such_tool" in error.message, "unknown tool:", error.message)
    else:
        raise Failure("a tool that is not there can be called")


async def examples(session, tools, run):
    """Flows of several calls, such as programs of many files that are saved one by one."""
    for path in sorted((HERE / "examples").glob("*.json")):
        kept = {"run": run}
        for row in json.loads(path.read_text()):
            try:
                await step(session, tools, row, kept)
            except Failure as failure:
                raise Failure(f"{path.name}: {failure}") from failure


TESTS = [
    described, every_tool, blocks, progress, cancelling, large, pictures, resources, listening, prompts, refusals, examples
]


async def logging(kind, mode):
    """Those who want to know are told, in the way of their revision."""
    told = []

    async def hear(message):
        told.append(message.data)

    more = {"log_level": "info"} if mode != "legacy" else {}
    async with client(kind, mode=mode, logging_callback=hear, **more) as session:
        if mode == "legacy":
            with warnings.catch_warnings(action="ignore"):
                await session.set_logging_level("info")
        await python(session, "print('heard')")
        with anyio.move_on_after(5):
            while not told:
                await anyio.sleep(0.05)
        check(told, "nothing was logged")
        return session.protocol_version


async def over(kind):
    run = f"{kind}-{time.time_ns() % 10**9}"
    failed = []
    async with client(kind, mode="auto") as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        print(f"{kind}: {len(tools)} tools, revision {session.protocol_version}", flush=True)
        for test in TESTS:
            began = time.monotonic()
            try:
                await test(session, tools, run)
            except (Failure, MCPError, TimeoutError, jsonschema.ValidationError) as error:
                failed.append(test.__name__)
                print(f"{kind}: {test.__name__} FAILED: {type(error).__name__}: {str(error)[:3000]}", file=sys.stderr, flush=True)
            else:
                print(f"{kind}: {test.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    for mode in ("legacy", "2026-07-28"):
        revision = await logging(kind, mode)
        print(f"{kind}: logging, revision {revision}", flush=True)
    check(not failed, ", ".join(failed))


def main():
    failed = []
    for kind in sys.argv[1:] or ["stdio", "http", "websocket"]:
        try:
            anyio.run(over, kind)
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            if isinstance(error, KeyboardInterrupt):
                raise
            failed.append(kind)
            print(f"{kind}: FAILED: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    sys.exit(f"failed over {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
