package main

import (
	"errors"
	"regexp"
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
	notes = linkAbroad(notes, version)
	heading := "## [" + strings.TrimPrefix(version, "v") + "] - " + date + "\n"
	return notes + "\n", before + unreleased + "\n" + heading + rest, nil
}

var codeOrLink = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\]\\(([^)\\s:]+)\\)")

// linkAbroad makes links to files of the repository ones to these files at the tag, because the notes
// are read on pages next to which there are no such files.
func linkAbroad(notes, version string) string {
	return codeOrLink.ReplaceAllStringFunc(notes, func(found string) string {
		target, isLink := strings.CutPrefix(found, "](")
		if !isLink {
			return found
		}
		if target[0] == '#' {
			target = "CHANGELOG.md" + target
		}
		return "](https://" + ours + "/blob/" + version + "/" + target
	})
}
