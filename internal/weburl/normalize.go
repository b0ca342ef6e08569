// Package weburl gives the spellings of one web address one name, for the examples that keep
// sets of addresses.
package weburl

import (
	"net/url"
	"strings"
)

// Normalize returns the one spelling that stands for all spellings of a URL. A crawler asks
// for this spelling, because otherwise it would fetch http://a.example and
// HTTP://A.example:80/#top as two pages. The rule follows section 6.2 of RFC 3986, as far
// as it does not depend on the server:
//
//   - White space around the URL is cut.
//   - The scheme and the host have lower-case letters. Dots at the end of the host are cut.
//   - The port is left out if it is the default port of http or https.
//   - The empty path is "/", and "." and ".." in the path are resolved.
//   - Escapes such as %7e of letters, digits and "-._~" are decoded. The hexadecimal digits of
//     the other escapes are upper-case.
//   - The fragment is left out, and so is a "?" with nothing behind it.
//
// The query keeps its order, because a server may care about it. A URL that package net/url
// cannot parse, that has no host, or another scheme than http and https, stays as it is but
// for the white space.
func Normalize(raw string) string {
	raw = strings.TrimSpace(raw)
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return raw
	}
	if u.Host = normalHost(u); u.Host == "" {
		return raw
	}
	u.Fragment, u.RawFragment, u.ForceQuery = "", "", false
	u.RawQuery = normalEscapes(u.RawQuery)
	if err := setPath(u, normalEscapes(u.EscapedPath())); err != nil {
		return raw
	}
	u = u.ResolveReference(u) // resolves the dots
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}

// setPath gives u a path that is escaped already.
func setPath(u *url.URL, escaped string) (err error) {
	u.RawPath = escaped
	u.Path, err = url.PathUnescape(escaped)
	return err
}

// normalHost returns the host in lower case, and its port if that is not the default one.
func normalHost(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch port := u.Port(); {
	case port == "80" && u.Scheme == "http", port == "443" && u.Scheme == "https", port == "":
		host = strings.TrimRight(strings.TrimSuffix(host, ":"+port), ".")
	}
	return host
}

// normalEscapes decodes the escapes that need not be there, and writes the others with
// upper-case digits. What is no escape stays.
func normalEscapes(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			b.WriteByte(s[i])
			continue
		}
		escape := strings.ToUpper(s[i : i+3])
		if c, err := url.PathUnescape(escape); err == nil && isUnreserved(c[0]) {
			escape = c
		}
		b.WriteString(escape)
		i += 2
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// isUnreserved reports whether c means the same with and without an escape: RFC 3986, 2.3.
func isUnreserved(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("-._~", c) >= 0
}
