# Runs a file of RedisBloom's tests on a server that runs already. They are written for RLTest, a framework which starts a Redis with
# the module; this is as much of it as they use.
#
#	python3 rltest.py PORT FILE [WORD...]
#
# The words go behind the options of each BF.RESERVE and BF.INSERT.
#
# For each test it prints a line of JSON. A test that wants the server to start again prints "restart", and waits for a line.

import contextlib, importlib, inspect, json, os, sys, traceback

import redis


class Skipped(Exception):
    pass


class Defaults:
    pass


class Platform:
    os = osnick = arch = ""


class Reply:
    def __init__(self, env, args):
        self.text = None
        try:
            env.cmd(*args)
        except redis.ResponseError as e:
            self.text = str(e)

    def error(self):
        assert self.text is not None, "no error"
        return self

    def contains(self, part):
        assert part in self.text, f"{self.text!r} has no {part!r}"


class Env:
    def __init__(self, decodeResponses=False, **_):
        self.con = redis.Redis(port=int(sys.argv[1]), decode_responses=decodeResponses)
        self.execute_command = self.cmd

    def cmd(self, *args):
        args = (*args[0].split(), *args[1:])
        name = args[0].lower()
        if name == "bf.reserve" and len(args) >= 4:
            args += tuple(sys.argv[3:])
        elif name == "bf.insert" and len(args) > 2:
            args = args[:2] + tuple(sys.argv[3:]) + args[2:]
        return self.con.execute_command(*args)

    def expect(self, *args):
        return Reply(self, args)

    def skip(self):
        raise Skipped

    def skipOnVersionSmaller(self, version):
        pass

    def debugPrint(self, text):
        pass

    def dumpAndReload(self):
        print("restart", flush=True)
        assert sys.stdin.readline() == "restarted\n"
        self.con.connection_pool.disconnect()

    @contextlib.contextmanager
    def assertResponseError(self):
        try:
            yield
        except redis.ResponseError:
            return
        raise AssertionError("no error")

    def assertRaises(self, kind, fn, *args):
        try:
            fn(*args)
        except kind:
            return
        raise AssertionError(f"{args}: no error")

    def assertEqual(self, a, b):
        assert a == b, f"{a!r} is not {b!r}"

    def assertOk(self, reply):
        assert reply in (True, "OK", b"OK"), f"{reply!r} is not OK"

    def assertTrue(self, x):
        assert x, f"{x!r}"

    def assertLess(self, a, b):
        assert a < b, f"{a} is not below {b}"

    def assertLessEqual(self, a, b):
        assert a <= b, f"{a} is above {b}"

    def assertGreaterEqual(self, a, b):
        assert a >= b, f"{a} is below {b}"


def run(test):
    try:
        for _ in test() or ():  # some are generators
            pass
    except Skipped:
        return "skipped", ""
    except Exception:
        return "failed", traceback.format_exc()
    return "passed", ""


sys.modules["RLTest"] = sys.modules["paella"] = sys.modules["__main__"]
sys.path.insert(0, os.path.dirname(sys.argv[2]))
module = importlib.import_module(os.path.basename(sys.argv[2]).removesuffix(".py"))
for group, kind in inspect.getmembers(module, inspect.isclass):
    if group.startswith("test"):
        tests = kind()
        for name in (n for n in vars(kind) if n.startswith("test")):
            result, text = run(getattr(tests, name))
            print(json.dumps({"name": f"{group}.{name}", "result": result, "text": text}), flush=True)
