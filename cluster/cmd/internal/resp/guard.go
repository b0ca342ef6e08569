package resp

// Limits of the protocol, as in Redis.
const (
	MaxArgs   = 1 << 20  // arguments of a command, its name included
	MaxInline = 64 << 10 // bytes of a command that is a line
	maxDigits = 20
)

// A protocolError is what ends a connection, in the words of Redis.
type protocolError string

func (e protocolError) Error() string { return string(e) }

// What a Guard finds, in the words of Redis.
const (
	errMultibulk = protocolError("ERR Protocol error: invalid multibulk length")
	errBulk      = protocolError("ERR Protocol error: invalid bulk length")
	errDollar    = protocolError("ERR Protocol error: expected '$'")
	errInline    = protocolError("ERR Protocol error: too big inline request")
	errWeb       = protocolError("ERR Protocol error: this is a request of HTTP, and no command")
)

// A Guard follows the bytes of a client through the heads of commands: how many arguments
// there are, and how long each is. The parser of redcon has no limits: a length of 2^63-1
// makes it panic, and a number of arguments of that size keeps it counting for ever.
// So it must not get to see such heads.
//
// It also ends a request of HTTP. A page of any web site can make a browser on this machine send one here,
// whose body would be commands in lines.
type Guard struct {
	Most int64 // bytes of the arguments of one command

	state guardState
	n     int64   // digits read so far, as a number; bytes of an argument or of a line
	len   int     // length of the head so far
	args  int64   // arguments that are still to come
	used  int64   // bytes of the arguments of this command
	begin [5]byte // of a command of one line, in small letters
}

type guardState uint8

const (
	atCommand guardState = iota // at the first byte of a command
	inInline                    // in a command of one line
	inCount                     // in the number of arguments
	atLength                    // at the $ of an argument
	inLength                    // in the length of an argument
	inBody                      // in an argument and the line end after it
)

// Check follows p, and returns how many of its bytes keep to the limits, and where the last
// whole command ends among them, or 0. If not all bytes are good, the error says why.
func (g *Guard) Check(p []byte) (good, end int, err error) {
	for i := 0; i < len(p); i++ {
		if g.state == inBody {
			step := min(g.n, int64(len(p)-i))
			g.n -= step
			i += int(step) - 1
			if g.n == 0 {
				g.nextArgument()
			}
		} else if err := g.step(p[i]); err != nil {
			return i, end, err
		}
		if g.state == atCommand {
			end = i + 1
		}
	}
	return len(p), end, nil
}

// nextArgument goes on after an argument, or after the number of them.
func (g *Guard) nextArgument() {
	g.state = atLength
	if g.args == 0 {
		g.state = atCommand
	}
	g.args--
}

func (g *Guard) step(b byte) error {
	switch g.state {
	case atCommand:
		g.n, g.len, g.used, g.state = 0, 0, 0, inInline
		if b == '*' {
			g.state = inCount
			return nil
		}
		return g.inline(b)
	case inInline:
		return g.inline(b)
	case inCount:
		done, ok := g.digit(b)
		if !ok || g.n > MaxArgs || done && g.n == 0 {
			return errMultibulk
		}
		if done {
			g.args = g.n
			g.nextArgument()
		}
	case atLength:
		if b != '$' {
			return errDollar
		}
		g.n, g.len, g.state = 0, 0, inLength
	case inLength:
		done, ok := g.digit(b)
		if !ok || g.n > g.Most-g.used {
			return errBulk
		}
		if done {
			g.used += g.n
			g.n += 2 // the line end
			g.state = inBody
		}
	}
	return nil
}

func (g *Guard) inline(b byte) error {
	g.n++
	switch {
	case b == '\n':
		g.state = atCommand
	case g.n > MaxInline:
		return errInline
	case g.n <= int64(len(g.begin)):
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		g.begin[g.n-1] = b
		if word := string(g.begin[:g.n]); word == "post " || word == "host:" {
			return errWeb
		}
	}
	return nil
}

// digit takes a byte of a head: digits, a carriage return and a newline, which is the end.
func (g *Guard) digit(b byte) (done, ok bool) {
	g.len++
	switch {
	case g.len > maxDigits:
		return false, false
	case g.len < 0: // after the carriage return
		return b == '\n', b == '\n'
	case b == '\r':
		if g.len == 1 {
			return false, false
		}
		g.len = -2
		return false, true
	case b < '0' || b > '9' || g.n > 1<<50:
		return false, false
	}
	g.n = 10*g.n + int64(b-'0')
	return false, true
}
