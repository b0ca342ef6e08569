package main

import (
	"iter"
	"net/netip"
	"net/url"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/weburl"
)

// An entry is what a line stands for: a host, or a mail address or URL and its host. The zero
// entry stands for an empty line or a comment.
type entry struct {
	whole string // the mail address or URL; empty for a host
	host  string
}

// entryOf reads a line of a list or of the input. ok is false if the line is none of the
// three. All spellings of an entry become one:
//
//   - A host has lower-case letters, and no dot at its end.
//   - A mail address is what stands between the last < and its >, if there are any. All of it
//     has lower-case letters. RFC 5321 lets servers tell "Bob" from "bob" in front of the @,
//     but hardly any does.
//   - A URL has a scheme, http or https, and gets the spelling of package weburl.
//
// Names are not converted: those that are not ASCII have to be in Punycode.
func entryOf(line string) (e entry, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return entry{}, true
	}
	if strings.Contains(line, "://") {
		return urlEntry(line)
	}
	if inner, closed := strings.CutSuffix(line, ">"); closed { // Name <user@host>
		line = inner[strings.LastIndexByte(inner, '<')+1:]
	}
	user, host, isMail := cutLast(strings.ToLower(line), "@")
	if !isMail {
		user, host = "", user
	}
	e.host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if isMail {
		e.whole = user + "@" + e.host
	}
	return e, isHost(e.host) && isMail == (user != "") && len(user) <= 64 && !strings.ContainsAny(user, " \t<>,;")
}

// urlEntry is entryOf for a URL.
func urlEntry(line string) (e entry, ok bool) {
	e.whole = weburl.Normalize(line)
	u, err := url.Parse(e.whole)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return entry{}, false
	}
	e.host = strings.TrimRight(strings.ToLower(u.Hostname()), ".") // without the port
	return e, isHost(e.host) && len(e.whole) <= shale.MaxKeySize   // escapes make a URL longer
}

// cutLast is strings.Cut at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// isHost refuses what is certainly no host, such as a line of prose.
func isHost(s string) bool {
	return s != "" && len(s) <= 253 && !strings.ContainsAny(s, " \t<>,;\"/@")
}

// name is the key of an entry in the store. A host, a mail address and a URL never have the
// same name: only a URL has "://", and only a mail address has an @ without it.
func (e entry) name() string {
	if e.whole != "" {
		return e.whole
	}
	return e.host
}

// names yields the names for which an entry is listed: its own, that of its host, and those
// of the domains above the host.
func (e entry) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		if e.whole != "" && !yield(e.whole) {
			return
		}
		for name := range withParents(e.host) {
			if !yield(name) {
				return
			}
		}
	}
}

// withParents yields a host and the domains above it, except for top-level domains. An IP
// address has no domains above it.
func withParents(host string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(host) {
			return
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return
		}
		for {
			_, above, ok := strings.Cut(host, ".")
			if !ok || !strings.Contains(above, ".") || !yield(above) {
				return
			}
			host = above
		}
	}
}
