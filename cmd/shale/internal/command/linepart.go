package command

import (
	"bytes"
	"crypto/sha256"
)

// A linePart says which part of a line is looked up.
type linePart struct {
	field     int    // number of the field, from 1 up; 0: the whole line
	separator []byte // between fields; empty: spaces and tabs
	host      bool   // look up the host, if the text is a URL
	parents   bool   // look up the domains above it, too
}

// keysOf adds the keys to look up for text, which is a line without its end. It adds none if the
// line does not have the field.
func (p linePart) keysOf(text []byte, keys *keyList) {
	if p.field > 0 {
		var ok bool
		if text, ok = p.fieldOf(text); !ok {
			return
		}
	}
	if p.host {
		if text = hostOf(text); len(text) == 0 {
			return
		}
		text = keys.lower(text)
	}
	keys.add(text)
	if !p.parents || isAddress(text) {
		return
	}
	for {
		dot := bytes.IndexByte(text, '.')
		if dot < 0 || dot == len(text)-1 {
			return
		}
		text = text[dot+1:]
		keys.add(text)
	}
}

func (p linePart) fieldOf(text []byte) (field []byte, ok bool) {
	for n := 1; ; n++ {
		var rest []byte
		var more bool
		if len(p.separator) > 0 {
			field, rest, more = bytes.Cut(text, p.separator)
		} else {
			text = bytes.TrimLeft(text, " \t")
			end := bytes.IndexAny(text, " \t")
			if field = text; end >= 0 {
				field, rest, more = text[:end], text[end:], true
			}
			if len(field) == 0 {
				return nil, false
			}
		}
		if n == p.field {
			return field, true
		}
		if !more {
			return nil, false
		}
		text = rest
	}
}

// hostOf returns the host of a URL, or of a text such as host:port. The result has no scheme,
// user, port, path, brackets, or dot at its end.
func hostOf(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if i := bytes.Index(text, []byte("//")); i == 0 || i > 1 && text[i-1] == ':' && isScheme(text[:i-1]) {
		text = text[i+2:]
	}
	if i := bytes.IndexAny(text, `/?#\`); i >= 0 {
		text = text[:i]
	}
	text = text[bytes.LastIndexByte(text, '@')+1:]
	if len(text) > 0 && text[0] == '[' {
		if end := bytes.IndexByte(text, ']'); end > 0 {
			return text[1:end]
		}
	}
	if i := bytes.IndexByte(text, ':'); i >= 0 && i == bytes.LastIndexByte(text, ':') {
		text = text[:i]
	}
	return bytes.TrimSuffix(text, []byte("."))
}

func isScheme(text []byte) bool {
	for _, c := range text {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// isAddress reports whether host is an IP address and not a name. An address has no domains
// above it.
func isAddress(host []byte) bool {
	for _, c := range host {
		if c == ':' {
			return true
		}
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// A keyList is a list of keys to look up. They are the keys that dedup would store.
type keyList struct {
	keys [][]byte
	made []byte // memory of keys that are not parts of lines
	hash bool   // the keys are hashes
}

func (l *keyList) reset()        { l.keys, l.made = l.keys[:0], l.made[:0] }
func (l *keyList) len() int      { return len(l.keys) }
func (l *keyList) all() [][]byte { return l.keys }

// add adds the key of text.
func (l *keyList) add(text []byte) {
	switch {
	case l.hash:
		sum := sha256.Sum256(text)
		from := len(l.made)
		l.made = append(l.made, sum[:hashSize]...)
		text = l.made[from:len(l.made):len(l.made)]
	case isOdd(text):
		text = oddKey(text)
	}
	l.keys = append(l.keys, text)
}

// lower returns text with its ASCII letters in lower case. If that changes anything, the result
// is in memory of l. Keys that l has already do not move when this memory grows.
func (l *keyList) lower(text []byte) []byte {
	upper := func(r rune) bool { return 'A' <= r && r <= 'Z' }
	if bytes.IndexFunc(text, upper) < 0 {
		return text
	}
	from := len(l.made)
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		l.made = append(l.made, c)
	}
	return l.made[from:len(l.made):len(l.made)]
}
