<?php
// PHP: strings, arrays, JSON, dates, files, processes, sockets, generators, exceptions.
function must(bool $truth, string $what): void { if (!$truth) { throw new Exception($what); } }

must(array_sum(array_map(fn($n) => $n ** 2, range(1, 100))) === 338350, 'arrays');
must(json_decode(json_encode(['a' => [1, null]]), true) === ['a' => [1, null]], 'json');
must(preg_match_all('/\d+/', 'a1b22', $found) === 2 && $found[0] === ['1', '22'], 'regex');
must(hash('sha256', 'abc')[0] === 'b' && strlen(random_bytes(16)) === 16 && password_verify('x', password_hash('x', PASSWORD_BCRYPT, ['cost' => 5])), 'crypto');
must((new DateTime('2024-07-01', new DateTimeZone('Europe/Berlin')))->getOffset() === 7200, 'zones');
function numbers(int $to) { for ($n = 0; $n < $to; $n++) { yield $n; } }
must(array_sum(iterator_to_array(numbers(1000))) === 499500, 'generators');

$dir = sys_get_temp_dir() . '/ordinary';
mkdir($dir);
for ($n = 0; $n < 200; $n++) { file_put_contents("$dir/$n", str_repeat("line\n", $n), LOCK_EX); }
must(count(glob("$dir/*")) === 200 && filesize("$dir/10") === 50 && rename("$dir/0", "$dir/zero"), 'files');
$file = new SplFileObject("$dir/50"); $lines = 0; foreach ($file as $_) { $lines++; }
must($lines === 51, 'lines');
must(gzuncompress(gzcompress(str_repeat('x', 100000))) === str_repeat('x', 100000), 'compression');

$process = proc_open(['sort', '-n'], [['pipe', 'r'], ['pipe', 'w']], $pipes);
fwrite($pipes[0], "3\n1\n2\n"); fclose($pipes[0]);
must(stream_get_contents($pipes[1]) === "1\n2\n3\n" && proc_close($process) === 0, 'process');
must(trim(shell_exec('echo $((6*7))')) === '42' && exec('exit 3', $_, $code) !== null && $code === 3, 'shell');

$server = stream_socket_server('tcp://127.0.0.1:0');
$client = stream_socket_client('tcp://' . stream_socket_get_name($server, false), timeout: 60);
$line = stream_socket_accept($server, 60);
fwrite($client, "hello\n");
must(fgets($line) === "hello\n", 'sockets');
$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
fwrite($pair[0], 'x'); $read = [$pair[1]]; $none = null;
must(stream_select($read, $none, $none, 60) === 1, 'select');
if (function_exists('pcntl_fork')) { $pid = pcntl_fork(); if ($pid === 0) { exit(7); } pcntl_waitpid($pid, $status); must(pcntl_wexitstatus($status) === 7, 'fork'); }
try { intdiv(1, 0); must(false, 'division'); } catch (DivisionByZeroError) { }
echo "done\n";
