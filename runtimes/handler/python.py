# Runs a Python program for a value: `python3 python.py main.py ARGS…`, with `call.json` beside this file.
#
# The program is `__main__`, its directory comes first where modules are looked for, and arguments are its own, as if it
# had been started itself. What came of it is left in `value.json` beside this file: `{"value": …}`, or `{"failure": …}`
# with the reason in words. Exit codes: 1 it could not be loaded, 2 its handler raised, 3 its value is no JSON.
import os
import sys


def main():
    known = set(sys.modules)
    import json

    place = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(place, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    # So that a large event does not take up storage twice.
    os.unlink(file.name)
    host = Host(place, call, json)

    sys.argv[:] = sys.argv[1:]
    path = os.path.abspath(sys.argv[0])
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(path)
    hide(set(sys.modules) - known, os.path.dirname(path))
    module = type(sys)("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __annotations__={}, __cached__=None)
    sys.modules["__main__"] = module
    value = host.evaluate(module, path) if call["mode"] == "evaluate" else host.handle(module, path)
    host.leave_value(value)


def hide(loaded, beside):
    """Forgets what only we have loaded, where the program has a module of such a name."""
    names = {name.split(".")[0] for name in loaded}
    try:
        own = {entry.split(".")[0] for entry in os.listdir(beside)}
    except OSError:
        own = set()
    if names & own:
        for name in loaded:
            sys.modules.pop(name, None)


class Host:
    def __init__(self, place, call, json):
        self.call, self.json = call, json
        self.value = os.path.join(place, "value.json")
        # A copy of this process has no value of its own.
        self.process = os.getpid()
        # The program may change what these names stand for.
        self.open, self.getpid = open, os.getpid

    def load(self, path):
        with open(path, "rb") as file:
            return file.read()

    def handle(self, module, path):
        self.guard(1, "the program could not be loaded", self.run, module, self.load(path), path)
        handler = getattr(module, "handler", None)
        if not callable(handler):
            what = "defines no function `handler`" if handler is None else "has a `handler` that is no function"
            self.fail(1, f"{os.path.basename(path)} {what}; `def handler(event):` or `def handler(event, context):` is expected")
        arguments = [self.call["event"]]
        if takes_two(handler):
            arguments.append(Context(self.call["context"], self.call["deadline_ms"]))
        return self.guard(2, "the handler raised", lambda: settled(handler(*arguments)))

    def evaluate(self, module, path):
        # What `ast` is made of: nobody else has a module of that name.
        import _ast

        source = self.load(path)
        name = "<value>"

        def work():
            tree = compile(source, path, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
            if tree.body and isinstance(tree.body[-1], _ast.Expr):
                last = tree.body[-1]
                place = {key: getattr(last, key) for key in last._attributes}
                tree.body[-1] = _ast.Assign([_ast.Name(name, _ast.Store(), **place)], last.value, **place)
            self.run(module, tree, path)
            return settled(module.__dict__.pop(name, None))

        return self.guard(1, "the program raised", work)

    def run(self, module, source, path):
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)

    def guard(self, code, what, work, *arguments):
        """Does something of the program's; what it raises is shown as if we were not there."""
        try:
            return work(*arguments)
        except SystemExit:
            raise
        except BaseException as error:
            error = error.with_traceback(trimmed(error.__traceback__))
            try:
                sys.excepthook(type(error), error, error.__traceback__)
            except Exception:
                sys.__excepthook__(type(error), error, error.__traceback__)
            self.fail(code, f"{what}: {described(error)}" if code == 1 else f"{what} {described(error)}")

    def leave_value(self, value):
        of = "the value of the handler" if self.call["mode"] == "handler" else "the value"
        try:
            text = self.json.dumps(finite(value), ensure_ascii=False).encode()
        except UnicodeEncodeError:
            self.fail(3, f"{of} is no JSON: a text in it has half of a character")
        except RecursionError:
            self.fail(3, f"{of} is no JSON: it is nested too deeply, or contains itself")
        except Exception as error:
            self.fail(3, f"{of} is no JSON: {error}")
        most = self.call["most_value_bytes"]
        if len(text) > most:
            self.fail(3, f"{of} has {len(text)} bytes as JSON; at most {most} are allowed")
        self.leave(b'{"value":' + text + b"}")

    def fail(self, code, why):
        self.leave(b'{"failure":' + self.json.dumps(why[:2000]).encode() + b"}")
        sys.exit(code)

    def leave(self, content):
        if self.getpid() == self.process:
            with self.open(self.value, "wb") as file:
                file.write(content)


class Context:
    """What a handler may want to know of its run."""

    def __init__(self, fields, deadline_ms):
        self.__dict__.update(fields)
        self.aws_request_id = self.request_id
        self._deadline_ms = deadline_ms

    def get_remaining_time_in_millis(self):
        import time

        return max(0, self._deadline_ms - int(time.time() * 1000))


def takes_two(handler):
    code = getattr(handler, "__code__", None)
    if code is not None and type(handler).__name__ == "function" and not hasattr(handler, "__wrapped__"):
        return code.co_argcount >= 2 or bool(code.co_flags & 0x04)
    import inspect

    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = [parameter.kind for parameter in parameters]
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in plain for kind in kinds) >= 2 or inspect.Parameter.VAR_POSITIONAL in kinds


def settled(value):
    """What an awaitable comes to."""
    if not hasattr(type(value), "__await__"):
        return value
    import asyncio

    async def wait():
        return await value

    return asyncio.run(wait())


def finite(value):
    """The same with null in place of numbers that JSON has no words for."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {finite_key(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def finite_key(key):
    return repr(key) if isinstance(key, float) and key - key != 0 else key


def trimmed(trace):
    """A traceback from the first line of the program's on."""
    ours = (os.path.abspath(__file__), os.path.join(os.path.dirname(os.__file__), "asyncio") + os.sep)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    return trace


def described(error):
    try:
        words = str(error)
    except Exception:
        words = ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


main()
