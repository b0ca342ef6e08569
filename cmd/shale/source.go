package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSources is how deep a file may run another one: deeper, they run each
// other.
const maxSources = 16

var errTooDeep = errors.New("files run each other too deep")

// source runs the commands of a file, up to the first error.
func source(ctx context.Context, s *session, a arguments) (status, error) {
	name := a.words[0].text
	if s.sources >= maxSources {
		return failed, fmt.Errorf("%s: %w: more than %d", quote(name), errTooDeep, maxSources)
	}
	f, err := os.Open(name)
	if err != nil {
		return failed, err
	}
	defer f.Close() // it is only read
	s.sources++
	defer func() { s.sources-- }()
	worst := found
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, readErr := lines.ReadString('\n')
		if readErr != nil && readErr != io.EOF {
			return failed, fmt.Errorf("%s:%d: %w", quote(name), n, readErr)
		}
		st, err := runSourced(ctx, s, strings.TrimSuffix(line, "\n"))
		switch {
		case errors.Is(err, errQuit) || ctx.Err() != nil:
			return worst, err
		case errors.Is(err, errTooDeep):
			return failed, err // not each of them
		case err != nil:
			if m := new(mistake); errors.As(err, &m) {
				err = errors.New(err.Error()) // its columns are those of the file's line
			}
			return failed, &sourceError{name, n, err}
		}
		worst = max(worst, st)
		if readErr == io.EOF {
			return worst, nil
		}
	}
}

func runSourced(ctx context.Context, s *session, line string) (status, error) {
	words, err := parseLine(line)
	if err != nil || len(words) == 0 {
		return found, err
	}
	return s.runIn(ctx, words)
}
