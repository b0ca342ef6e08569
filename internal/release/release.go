package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

type options struct {
	repo    repo
	version string
	out     string // where the notes go
	proxy   string // where the modules go; empty for a directory that is removed
	dry     bool   // no tags
	vet     bool   // go vet of each module
	log     io.Writer
}

// makeRelease commits the release next to the branch and tags it. Whatever fails before the last step
// leaves the repository as it was.
func makeRelease(ctx context.Context, o options) error {
	modules, err := ready(o.repo, o.version)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "shale-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if o.proxy == "" {
		o.proxy = filepath.Join(temp, "proxy")
	}
	tree, err := o.repo.clone(filepath.Join(temp, "tree"))
	if err != nil {
		return err
	}
	notes, err := commitChangelog(tree, o.version)
	if err != nil {
		return err
	}
	run := goCommand{ctx: ctx, env: append(os.Environ(), proxyEnv(o.proxy, filepath.Join(temp, "modules"))...)}
	if err := commitModules(tree, run, modules, o); err != nil {
		return err
	}
	commit, err := tree.git("", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	file := filepath.Join(o.out, "notes.md")
	if err := os.WriteFile(file, []byte(notes), 0o666); err != nil {
		return err
	}
	var tags []string
	for _, m := range modules {
		if m.kept == "" {
			tags = append(tags, m.tag(o.version))
		} else {
			fmt.Fprintf(o.log, "not released: %s: %s\n", m.path, m.kept)
		}
	}
	fmt.Fprintf(o.log, "The notes are in %s.\n", file)
	if o.dry {
		fmt.Fprintf(o.log, "All is well. Without -n, these tags would be made: %s\n", strings.Join(tags, " "))
		return nil
	}
	if _, err := o.repo.git("", "fetch", "-q", "--no-tags", tree.dir, "HEAD"); err != nil {
		return err
	}
	if err := o.repo.tags(commit, "shale "+o.version, tags); err != nil {
		return err
	}
	fmt.Fprintf(o.log, `Tagged %s. Nothing is pushed, and the branch is as it was. To publish, with the heading of CHANGELOG.md:

	git merge --ff-only '%s^{commit}^'
	git push --atomic origin HEAD %s

To undo it before that:

	git tag -d %s
`, o.version, o.version, strings.Join(tags, " "), strings.Join(tags, " "))
	return nil
}

// ready checks that the version may be released from here, and returns the modules.
func ready(r repo, version string) ([]module, error) {
	if major := semver.Major(version); semver.Canonical(version) != version || major != "v0" && major != "v1" {
		return nil, fmt.Errorf("%q is no version: want one such as v0.1.0; from v2 up, the paths of modules end in it", version)
	}
	if out, err := r.git("", "status", "--porcelain"); err != nil || out != "" {
		return nil, errors.Join(err, fmt.Errorf("commit these files first, or remove them:\n%s", out))
	}
	files, err := r.goMods()
	if err != nil {
		return nil, err
	}
	modules, err := findModules(r.dir, files)
	if err != nil {
		return nil, err
	}
	out, err := r.git("", "tag", "--list")
	if err != nil {
		return nil, err
	}
	tags := strings.Fields(out)
	for _, m := range modules {
		if tag := m.tag(version); slices.Contains(tags, tag) {
			return nil, fmt.Errorf("there is a tag %s already", tag)
		}
	}
	for _, tag := range tags {
		if semver.IsValid(tag) && semver.Compare(tag, version) > 0 {
			return nil, fmt.Errorf("%s is older than the release %s", version, tag)
		}
	}
	return modules, nil
}

// commitChangelog gives the version its heading, and returns what has changed.
func commitChangelog(tree repo, version string) (string, error) {
	name := filepath.Join(tree.dir, "CHANGELOG.md")
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	notes, after, err := splitChangelog(string(text), version, time.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(name, []byte(after), 0o666); err != nil {
		return "", err
	}
	_, err = tree.git("", "commit", "-q", "-a", "-m", "CHANGELOG: "+version)
	return notes, err
}

// commitModules pins every module to the version. go.sum has to have the sums of our own modules as
// well, so each module is added to the proxy before those that require it are tidied.
func commitModules(tree repo, run goCommand, modules []module, o options) error {
	for _, m := range modules {
		if err := m.pin(tree.dir, o.version); err != nil {
			return err
		}
		if m.kept != "" {
			continue
		}
		fmt.Fprintln(o.log, m.path)
		dir := filepath.Join(tree.dir, m.dir)
		if err := run.in(dir, "mod", "tidy"); err != nil {
			return err
		}
		if o.vet {
			if err := run.in(dir, "vet", "./..."); err != nil {
				return err
			}
		}
		if _, err := tree.git("", "add", "-A"); err != nil {
			return err
		}
		id, err := tree.git("", "write-tree")
		if err != nil {
			return err
		}
		if err := proxy(o.proxy).add(tree, id, m, o.version); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	_, err := tree.git("", "commit", "-q", "-a", "-m", "release "+o.version)
	return err
}

// proxyEnv is the environment of a go command that takes our modules from a proxy in a directory, and
// has a cache of modules of its own: the usual one must not learn of versions that nobody has
// published. The modules of others come from the usual cache, if they are there.
func proxyEnv(proxy, cache string) []string {
	usual, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		usual = []byte("\n")
	}
	where, others, _ := strings.Cut(strings.TrimRight(string(usual), "\n"), "\n")
	return []string{
		"GOPROXY=" + strings.Join([]string{fileURL(proxy), fileURL(filepath.Join(where, "cache", "download")), others}, ","),
		"GOMODCACHE=" + cache, "GONOSUMDB=" + ours, "GOPRIVATE=", "GONOPROXY=", "GOFLAGS=-modcacherw -trimpath", "GOWORK=off",
	}
}

func fileURL(dir string) string { return "file://" + filepath.ToSlash(dir) }

// A goCommand runs go with an environment.
type goCommand struct {
	ctx context.Context
	env []string
}

func (c goCommand) in(dir string, args ...string) error {
	cmd := exec.CommandContext(c.ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, c.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, out)
	}
	return nil
}
