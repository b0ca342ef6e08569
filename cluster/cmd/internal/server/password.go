package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/resp"
)

// userName is the only user, as in a Redis without access lists.
const userName = "default"

// wrongPause is how long a wrong password is answered. One at a time is, so a guesser has ten tries a second, with any number
// of connections.
const wrongPause = 100 * time.Millisecond

// A Password is kept as a salted hash. So comparing takes the same time for all candidates, also of
// another length.
//
// The hash is not meant to be slow: passwords are random and long in a group that is set up as the
// page says, and refuse makes guessing slow.
type Password struct{ salt, sum [sha256.Size]byte }

// NewPassword returns nil for "".
func NewPassword(text string) *Password {
	if text == "" {
		return nil
	}
	p := new(Password)
	_, _ = rand.Read(p.salt[:]) // never fails
	p.sum = p.hash([]byte(text))
	return p
}

// hash returns the hash of a candidate with the salt.
func (p *Password) hash(text []byte) [sha256.Size]byte {
	return sha256.Sum256(append(p.salt[:], text...))
}

// Is reports whether text is the password. nil is none that can be said.
func (p *Password) Is(text []byte) bool {
	if p == nil {
		return false
	}
	sum := p.hash(text)
	return subtle.ConstantTimeCompare(sum[:], p.sum[:]) == 1
}

// Knows reports whether a text is the password, or that of others. It is true for all if there is none. If it is
// wrong, that takes a while.
func (s *Server) Knows(text string, others *Password) bool {
	p := s.password.Load()
	if p == nil || p.Is([]byte(text)) || others.Is([]byte(text)) {
		return true
	}
	s.refuse()
	return false
}

// refuse counts a wrong password, and waits for its turn to be answered.
//
// The lock is what makes it slow: with many connections at once a guesser still gets one answer
// each wrongPause. Right passwords do not pass here, so clients are not held up.
func (s *Server) refuse() {
	s.counts.wrongPasswords.Add(1)
	s.wrong.Lock()
	defer s.wrong.Unlock()
	time.Sleep(wrongPause)
}

// login takes a user and a password: that for all commands, or that for reading. It returns false after it has replied that they
// are wrong.
func (c *client) login(user, text []byte) bool {
	password := c.s.password.Load()
	full := password.Is(text)
	switch {
	case password == nil && string(user) == userName:
		// A client that sends a password to a server without one is on the wrong server, or the server was
		// started without the flag. Redis refuses that too.
		c.Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		return false
	case !full && !c.s.readPassword.Load().Is(text) || string(user) != userName:
		c.s.refuse()
		c.Error("WRONGPASS invalid username-password pair or user is disabled.")
		return false
	}
	c.known, c.reads = true, !full
	c.limit(c.s.config.MaxCommand, false)
	return true
}

// auth is AUTH [user] password.
func (c *client) auth(args [][]byte) {
	user, text := []byte(userName), args[0]
	switch len(args) {
	case 1:
	case 2:
		user, text = args[0], args[1]
	default:
		c.SyntaxError()
		return
	}
	if c.login(user, text) {
		c.OK()
	}
}

// hello is HELLO [version [AUTH user password] [SETNAME name]].
//
// All words are read before anything is changed, so that a HELLO with a mistake in its form changes
// nothing.
func (c *client) hello(args [][]byte) {
	proto3 := c.RESP3
	if len(args) > 0 {
		switch n, ok := resp.ParseInt(args[0]); {
		case !ok:
			c.Error("ERR Protocol version is not an integer or out of range")
			return
		case n != 2 && n != 3:
			c.Error("NOPROTO unsupported protocol version")
			return
		default:
			proto3 = n == 3
			args = args[1:]
		}
	}
	var name []byte
	named := false
	var user, text []byte
	for len(args) > 0 {
		switch {
		case resp.Is(args[0], "AUTH") && len(args) >= 3:
			user, text, args = args[1], args[2], args[3:]
		case resp.Is(args[0], "SETNAME") && len(args) >= 2:
			name, named, args = args[1], true, args[2:]
		default:
			c.Error(fmt.Sprintf("ERR Syntax error in HELLO option '%s'", printable(args[0])))
			return
		}
	}
	if user != nil && !c.login(user, text) {
		return
	}
	if !c.known {
		c.Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if named {
		if !c.nameFits(name) {
			return
		}
		c.setName(name)
	}
	c.RESP3 = proto3
	c.greet(c.s.modeAndRole())
}
