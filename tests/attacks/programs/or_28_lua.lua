-- Lua: tables, closures, coroutines, text, files, other programs.
local sum = 0
for n = 1, 100 do sum = sum + n ^ 2 end
assert(sum == 338350 and 7 // 2 == 3 and 1 << 40 == 1099511627776)
local words = {}
for word in ("the cat and the dog"):gmatch("%a+") do words[word] = (words[word] or 0) + 1 end
assert(words.the == 2 and ("x"):rep(3, ",") == "x,x,x" and utf8.len("hé日") == 3)
local primes = coroutine.wrap(function()
    for n = 2, math.huge do
        local prime = true
        for d = 2, n // 2 do if n % d == 0 then prime = false break end end
        if prime then coroutine.yield(n) end
    end
end)
local last
for _ = 1, 100 do last = primes() end
assert(last == 541)
local point = setmetatable({ x = 1 }, { __add = function(a, b) return a.x + b.x end, __index = { y = 2 } })
assert(point + point == 2 and point.y == 2)
local path = os.tmpname()
local file = assert(io.open(path, "w"))
for n = 1, 1000 do file:write("line ", n, "\n") end
file:close()
local count = 0
for line in io.lines(path) do count = count + #line end
assert(count == 7893 and os.rename(path, path .. "2") and os.remove(path .. "2"))
local pipe = assert(io.popen("seq 5 | paste -sd+ | bc"))
assert(pipe:read("n") == 15 and pipe:close())
assert(select(3, os.execute("exit 3")) == 3 and os.getenv("HOME"))
local fine, problem = pcall(error, { code = 7 })
assert(not fine and problem.code == 7 and os.date("!%Y", 0) == "1970")
local list = {}
for n = 1, 50000 do list[n] = { n } end
list = nil
collectgarbage()
assert(collectgarbage("count") < 5000)
print("done")
