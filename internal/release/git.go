package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// A repo is a repository of git, or a worktree of one, by its top directory.
type repo struct {
	ctx context.Context
	dir string
}

// git runs git in the repository, with text as its standard input, and returns what it prints.
func (r repo) git(text string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.ctx, "git", args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// clone makes a clone in a new directory, for the same author.
func (r repo) clone(dir string) (repo, error) {
	args := []string{"clone", "-q", "--shared"}
	for _, key := range []string{"user.name", "user.email"} {
		if value, err := r.git("", "config", key); err == nil { // if it is not set, git knows the author in another way
			args = append(args, "-c", key+"="+value)
		}
	}
	_, err := r.git("", append(args, r.dir, dir)...)
	return repo{r.ctx, dir}, err
}

// goMods returns the names of all go.mod files.
func (r repo) goMods() ([]string, error) {
	out, err := r.git("", "ls-files", "go.mod", "*/go.mod")
	return strings.Fields(out), err
}

// tags makes an annotated tag for each name, all of them or none.
func (r repo) tags(commit, message string, names []string) error {
	tagger, err := r.git("", "var", "GIT_COMMITTER_IDENT")
	if err != nil {
		return err
	}
	var refs strings.Builder
	refs.WriteString("start\n")
	for _, name := range names {
		id, err := r.git(fmt.Sprintf("object %s\ntype commit\ntag %s\ntagger %s\n\n%s\n", commit, name, tagger, message), "mktag")
		if err != nil {
			return err
		}
		fmt.Fprintf(&refs, "create refs/tags/%s %s\n", name, id)
	}
	refs.WriteString("prepare\ncommit\n")
	_, err = r.git(refs.String(), "update-ref", "--stdin")
	return err
}
