package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// ours is the path of the root's module. Those of the others begin with it.
const ours = "github.com/shaledb/shale"

func isOurs(modulePath string) bool {
	return modulePath == ours || strings.HasPrefix(modulePath, ours+"/")
}

// A module is one of the repository. Its directory is relative to the top of the repository, with
// slashes, and empty for the root.
type module struct {
	path, dir string
	file      *modfile.File
	kept      string // why it is not released; empty if it is
}

// tag is the name of the module's tag for a version.
func (m module) tag(version string) string { return path.Join(m.dir, version) }

// findModules returns all modules below top, each after those that it requires: so the root is the
// first. It is an error if a module that is released requires one that is not.
func findModules(top string, files []string) ([]module, error) {
	all := make(map[string]module)
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			return nil, err
		}
		f, err := modfile.Parse(name, data, nil)
		if err != nil {
			return nil, err
		}
		m := module{path: f.Module.Mod.Path, dir: path.Dir(name), file: f}
		if m.dir == "." {
			m.dir = ""
		}
		if want := path.Join(ours, m.dir); m.path != want {
			return nil, fmt.Errorf("%s is of module %s, want %s", name, m.path, want)
		}
		m.kept = keptFor(m)
		all[m.path] = m
	}
	return sortModules(all)
}

// keptFor says why a module is not released, if so. Its replace lines for modules of others hold
// nowhere else, and go install refuses a program whose module has any.
func keptFor(m module) string {
	switch first, _, _ := strings.Cut(m.dir, "/"); first {
	case "bench", "examples", "internal":
		return "it is for those who have the repository"
	}
	for _, r := range m.file.Replace {
		if !isOurs(r.Old.Path) {
			return "it replaces " + r.Old.Path
		}
	}
	return ""
}

func sortModules(all map[string]module) ([]module, error) {
	var sorted []module
	done := make(map[string]bool)
	ready := func(m module) bool {
		return !slices.ContainsFunc(m.file.Require, func(r *modfile.Require) bool { return isOurs(r.Mod.Path) && !done[r.Mod.Path] })
	}
	for len(all) > 0 {
		var next []module
		for _, m := range all {
			if ready(m) {
				next = append(next, m)
			}
		}
		if len(next) == 0 {
			return nil, errors.New("modules require each other in a circle, or one that is not there")
		}
		slices.SortFunc(next, func(a, b module) int { return strings.Compare(a.path, b.path) })
		for _, m := range next {
			done[m.path] = true
			delete(all, m.path)
		}
		sorted = append(sorted, next...)
	}
	for _, m := range sorted {
		for _, r := range m.file.Require {
			i := slices.IndexFunc(sorted, func(o module) bool { return o.path == r.Mod.Path })
			if i >= 0 && m.kept == "" && sorted[i].kept != "" {
				return nil, fmt.Errorf("%s requires %s, which is not released: %s", m.path, r.Mod.Path, sorted[i].kept)
			}
		}
	}
	return sorted, nil
}

// pin writes the version into the module's requirements of ours. If the module is released, it drops
// the replace lines.
func (m module) pin(top, version string) error {
	for _, r := range m.file.Require {
		if isOurs(r.Mod.Path) {
			if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	if m.kept == "" {
		for _, r := range slices.Clone(m.file.Replace) {
			if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
				return err
			}
		}
	}
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(top, m.dir, "go.mod"), text, 0o666)
}
