# Parks Perl before it reads the main file, which is open by then: `perl -Iperl -mPark main.pl`.
#
# Says that it is ready, waits for the arguments and variables of the program, and takes its traces away. Written
# without a package, a sub or a variable of its own, because each of them would be one more trace.

# Almost every program begins with these two, and they take longer than Perl itself
require strict;
require warnings;

shift @INC;
delete $INC{'Park.pm'};

{
    syswrite STDOUT, "\x06";
    my ($length, $body) = (8, '');
    for my $part (my $digits = '', $body) {
        while (length $part < $length) {
            sysread STDIN, $part, $length - length $part, length $part or exit 0;
        }
        $length = hex $part;
    }
    my ($count, @words) = unpack '(Z*)*', $body;
    (undef, @ARGV) = splice @words, 0, $count;
    for my $variable (@words) {
        my $end = index $variable, '=';
        $ENV{substr $variable, 0, $end} = substr $variable, $end + 1;
    }
    # The program starts now
    $^T = time;
}

1;
