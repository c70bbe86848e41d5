<?php
// Parks PHP before it reads the main file, which is open by then: `php -d auto_prepend_file=php.php main.php`.
//
// Says that it is ready, waits for the arguments and variables of the program and returns.
(static function (): void {
    // Without a keeper nobody would know when it ends
    if (getenv('SANDBOXD_KEEPER') !== false) {
        exit(1);
    }
    // Streams of its own: STDIN and STDOUT would count what passes, and `echo` would count as a header sent
    $ready = fopen('php://stdout', 'w');
    fwrite($ready, "\x06");
    fclose($ready);

    $header = fopen('php://stdin', 'r');
    stream_set_read_buffer($header, 0);
    $take = static function (int $length) use ($header): string {
        for ($bytes = ''; strlen($bytes) < $length; $bytes .= $more) {
            $more = fread($header, $length - strlen($bytes));
            if ($more === '' || $more === false) {
                exit(0);
            }
        }
        return $bytes;
    };
    $words = explode("\0", $take(hexdec($take(8))), -1);
    fclose($header);

    $count = (int) array_shift($words);
    $GLOBALS['argv'] = array_splice($words, 0, $count);
    $GLOBALS['argc'] = $count;
    $variables = [];
    foreach ($words as $word) {
        putenv($word);
        [$name, $value] = explode('=', $word, 2);
        // PHP itself leaves these names out
        if (strpbrk($name, ' .[') === false) {
            $variables[$name] = $value;
        }
    }
    // Variables come first in $_SERVER, those of the request last among them
    $before = array_search('PHP_SELF', array_keys($_SERVER), true);
    $_SERVER = array_merge(array_slice($_SERVER, 0, $before), $variables, array_slice($_SERVER, $before));
    $_SERVER['argv'] = $GLOBALS['argv'];
    $_SERVER['argc'] = $GLOBALS['argc'];
    $_SERVER['REQUEST_TIME_FLOAT'] = microtime(true);
    $_SERVER['REQUEST_TIME'] = (int) $_SERVER['REQUEST_TIME_FLOAT'];
})();
