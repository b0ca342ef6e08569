package main

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/shaledb/shale/internal/weburl"
)

// A stream is the URLs that a crawler meets, one after the other. Many come again and
// again. Each walk through the stream gives the same URLs.
type stream struct {
	bases []string
	n     int // number of URLs; 0: the bases as they are, in their order
	zipf  float64
	seed  uint64
}

// newStream reads the bases from the file, or makes up hosts.
func newStream(c config) (*stream, error) {
	s := &stream{n: c.n, zipf: c.zipf, seed: c.seed}
	if c.urls == "" {
		for i := range c.hosts {
			s.bases = append(s.bases, fmt.Sprintf("https://www.site-%05d.example/", i))
		}
		return s, nil
	}
	f, err := os.Open(c.urls)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxURL)
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			s.bases = append(s.bases, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s, after line %d: %w", c.urls, len(s.bases), err)
	}
	if len(s.bases) == 0 {
		return nil, fmt.Errorf("%s: %w", c.urls, errNoURLs)
	}
	return s, nil
}

// maxURL is the longest line, in bytes, that is taken for a URL. With a page number it
// still is not longer than the longest key of shale.
const maxURL = 60 << 10

var errNoURLs = errors.New("it has no URLs")

// all yields the URLs of the stream. Each is valid until the next one.
func (s *stream) all() iter.Seq[[]byte] {
	if s.n == 0 {
		return s.asTheyAre
	}
	return s.drawn
}

// asTheyAre yields the bases in their order.
func (s *stream) asTheyAre(yield func([]byte) bool) {
	var url []byte
	for _, base := range s.bases {
		url = append(url[:0], base...)
		if !yield(url) {
			return
		}
	}
}

// drawn yields URLs by Zipf's law. There are four times as many pages as URLs in the
// stream; few of them come often, and many once or never. Page numbers follow the rank,
// so some hosts are popular too. One link in five spells its URL differently.
func (s *stream) drawn(yield func([]byte) bool) {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	pages := rand.NewZipf(rng, s.zipf, 1, 4*uint64(s.n)-1)
	var url []byte
	for range s.n {
		i := pages.Uint64()
		url = append(url[:0], s.bases[i%uint64(len(s.bases))]...)
		if page := i / uint64(len(s.bases)); page > 0 {
			url = strconv.AppendUint(append(url, "?page="...), page, 10)
		}
		switch rng.IntN(10) {
		case 0:
			url = append(url, "#part"...)
		case 1:
			url = shout(url)
		}
		if !yield(url) {
			return
		}
	}
}

// shout writes the scheme and the host of url in capitals.
func shout(url []byte) []byte {
	slashes := 0
	for i, c := range url {
		if c == '/' {
			slashes++
		}
		if slashes == 3 || c == '?' || c == '#' {
			break
		}
		if 'a' <= c && c <= 'z' {
			url[i] = c - 'a' + 'A'
		}
	}
	return url
}

// A truth is the right answers for a stream.
type truth struct {
	seen      []bool // for each URL of the stream: has it come before, in any spelling?
	spellings int
	distinct  int
	bytes     int64 // of the distinct URLs
}

// walkOnce computes the right answers with a set of all URLs.
func walkOnce(s *stream) truth {
	t := truth{seen: make([]bool, 0, max(s.n, len(s.bases)))}
	spelled, met := make(map[string]struct{}), make(map[string]struct{})
	for raw := range s.all() {
		spelled[string(raw)] = struct{}{}
		url := weburl.Normalize(string(raw))
		_, seen := met[url]
		if !seen {
			met[url] = struct{}{}
			t.bytes += int64(len(url))
		}
		t.seen = append(t.seen, seen)
	}
	t.spellings, t.distinct = len(spelled), len(met)
	return t
}
