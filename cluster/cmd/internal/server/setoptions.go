package server

import (
	"cmp"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

const errSyntax = refusal("ERR syntax error")

// An expiry says when a value is over: after a time to live, at a time, or never, if both are zero.
type expiry struct {
	ttl   time.Duration
	until time.Time
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
		ttl, refused := resp.TTL(args[1], option.unit, command)
		switch {
		case refused != "":
			return true, refusal(refused)
		case option.at:
			e.until = time.Unix(0, int64(ttl))
		default:
			e.ttl = ttl
		}
		return true, nil
	}
	return false, nil
}

// setOptions are the options of SET.
type setOptions struct {
	expiry
	ifAbsent, ifPresent, get, keepTTL bool
	ifEqual                           []byte // nil: no such condition
}

// reads reports whether SET has to know what is there.
func (o *setOptions) reads() bool {
	return o.ifAbsent || o.ifPresent || o.get || o.keepTTL || o.ifEqual != nil
}

// readSet reads the options of SET behind the key and the value.
func readSet(args [][]byte) (o setOptions, err error) {
	conditions := 0
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		switch {
		case resp.Is(rest[0], "NX"):
			o.ifAbsent = true
			conditions++
		case resp.Is(rest[0], "XX"):
			o.ifPresent = true
			conditions++
		case resp.Is(rest[0], "IFEQ") && len(rest) > 1:
			o.ifEqual = append([]byte{}, rest[1]...)
			rest = rest[1:]
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
