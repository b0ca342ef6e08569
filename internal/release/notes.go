package main

import (
	"errors"
	"strings"
)

const unreleased = "## [Unreleased]\n"

// splitChangelog returns what has changed since the last release, and the text with the heading of
// this version above it and an empty section of what is to come.
func splitChangelog(text, version, date string) (notes, after string, err error) {
	before, rest, found := strings.Cut(text, unreleased)
	if !found {
		return "", "", errors.New("CHANGELOG.md has no line " + strings.TrimSpace(unreleased))
	}
	notes, _, _ = strings.Cut(rest, "\n## [")
	if notes = strings.TrimSpace(notes); notes == "" {
		return "", "", errors.New("CHANGELOG.md has nothing under " + strings.TrimSpace(unreleased))
	}
	heading := "## [" + strings.TrimPrefix(version, "v") + "] - " + date + "\n"
	return notes + "\n", before + unreleased + "\n" + heading + rest, nil
}
