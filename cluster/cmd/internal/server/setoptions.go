package server

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

const errSyntax = refusal("ERR syntax error")

// An expiry says when a value is over: after a time to live, at a time, or never, if both are zero.
type expiry struct {
	ttl   time.Duration
	until time.Time
}

// readExpiry is readEnd for commands that refuse an end in the past.
func readExpiry(arg []byte, unit time.Duration, at bool, command string) (e expiry, err error) {
	if e, err = readEnd(arg, unit, at, command); err == nil && e.isPast() {
		err = errExpire(command)
	}
	return e, err
}

// readEnd reads how many units a value is to stay, or in which unit since 1970 it ends.
func readEnd(arg []byte, unit time.Duration, at bool, command string) (e expiry, err error) {
	n, ok := resp.ParseInt(arg)
	switch {
	case !ok:
		return e, errNoInteger
	case !at && n <= math.MaxInt64/int64(unit) && n >= math.MinInt64/int64(unit):
		return expiry{ttl: time.Duration(n) * unit}, nil
	}
	begin, per := int64(0), unit.Milliseconds() // as a Duration has 292 years
	if !at {
		begin = time.Now().UnixMilli()
	}
	if n > (math.MaxInt64-begin)/per || n < math.MinInt64/per {
		return e, errExpire(command)
	}
	return expiry{until: time.UnixMilli(begin + n*per)}, nil
}

// errExpire is the error for a time that is none.
func errExpire(command string) error {
	return refusal(fmt.Sprintf("ERR invalid expire time in '%s' command", strings.ToLower(command)))
}

// isPast reports whether the number that was read was not above 0.
func (e *expiry) isPast() bool { return e.ttl <= 0 && e.until.UnixMilli() <= 0 }

// end returns when the value is over, by the clock of this server.
func (e *expiry) end() time.Time {
	if e.until.IsZero() {
		return time.Now().Add(e.ttl).Truncate(time.Millisecond)
	}
	return e.until
}

// read reads an option that says when a value is over, and its number. ok is false for another word.
func (e *expiry) read(args [][]byte, command string) (ok bool, err error) {
	for _, option := range []struct {
		name string
		unit time.Duration
		at   bool
	}{{"EX", time.Second, false}, {"PX", time.Millisecond, false}, {"EXAT", time.Second, true}, {"PXAT", time.Millisecond, true}} {
		if !resp.Is(args[0], option.name) {
			continue
		}
		if len(args) < 2 || *e != (expiry{}) {
			return true, errSyntax
		}
		*e, err = readExpiry(args[1], option.unit, option.at, command)
		return true, err
	}
	return false, nil
}

// A condition is a word such as IFEQ, and what a string has to be, or not to be; without a word there is none.
type condition struct {
	word   string
	arg    []byte
	digest uint64
}

// readCondition reads a condition, if there is one.
func readCondition(args [][]byte) (is condition, err error) {
	if len(args) < 2 || !resp.Is(args[0][:min(2, len(args[0]))], "IF") {
		return is, nil // without making a word of each option
	}
	word := strings.ToUpper(string(args[0]))
	if word != "IFEQ" && word != "IFNE" && word != "IFDEQ" && word != "IFDNE" {
		return is, nil
	}
	is = condition{word: word, arg: args[1]}
	if word[2] == 'D' {
		if is.digest, err = strconv.ParseUint(string(is.arg), 16, 64); err != nil {
			return is, refusal("ERR a digest is 16 hexadecimal digits, as DIGEST returns it")
		}
	}
	return is, nil
}

// met reports whether a string is as the condition wants it.
func (is *condition) met(c *client, t *text) (ok bool, err error) {
	if is.word[2] == 'D' {
		var sum uint64
		sum, err = t.digest(c)
		ok = t.found && sum == is.digest
	} else {
		ok, err = t.is(c, is.arg)
	}
	return ok != strings.HasSuffix(is.word, "NE"), err
}

// xxh3 is the function of DIGEST.
var xxh3, _ = bloom.NewHasher(bloom.HashXXH3, 0)

// digest returns the hash of a string.
func (t *text) digest(c *client) (uint64, error) {
	s, err := t.part(c, 0, t.size())
	return xxh3.Hash(s), err
}

// doDigest is DIGEST.
func (c *client) doDigest(t *text, _ [][]byte) error {
	if !t.found {
		c.Null()
		return nil
	}
	sum, err := t.digest(c)
	c.BulkString(fmt.Sprintf("%016x", sum))
	return err
}

// setOptions are the options of SET.
type setOptions struct {
	expiry
	ifAbsent, ifPresent, get, keepTTL bool
	is                                condition
}

// reads reports whether SET has to know what is there.
func (o *setOptions) reads() bool {
	return o.ifAbsent || o.ifPresent || o.get || o.keepTTL || o.is.word != ""
}

// readSet reads the options of SET behind the key and the value.
func readSet(args [][]byte) (o setOptions, err error) {
	conditions := 0
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		is, err := readCondition(rest)
		switch {
		case err != nil:
			return o, err
		case is.word != "":
			o.is = is
			rest = rest[1:]
			conditions++
		case resp.Is(rest[0], "NX"):
			o.ifAbsent = true
			conditions++
		case resp.Is(rest[0], "XX"):
			o.ifPresent = true
			conditions++
		case resp.Is(rest[0], "GET"):
			o.get = true
		case resp.Is(rest[0], "KEEPTTL"):
			o.keepTTL = true
		default:
			ok, err := o.expiry.read(rest, "SET")
			if err != nil || !ok {
				return o, cmp.Or(err, error(errSyntax))
			}
			rest = rest[1:]
		}
	}
	if conditions > 1 || o.keepTTL && o.expiry != (expiry{}) {
		return o, errSyntax
	}
	return o, nil
}

// setKind says how a SET goes: most of them need not know what is there.
func setKind(args [][]byte) kind {
	if len(args) == 2 {
		return puts
	}
	o, err := readSet(args)
	switch {
	case err != nil:
		return updates // which refuses it
	case !o.reads() && o.until.IsZero(): // a batch of a group knows times to live only, and a transaction the group's time
		return puts
	case o.ifAbsent && !o.get && !o.keepTTL && o.until.IsZero():
		return inserts
	}
	return updates
}
