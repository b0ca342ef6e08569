package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	xmod "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A proxy is a directory with modules, as the go command reads them by GOPROXY=file://
// (go help goproxy).
type proxy string

// add writes the module as it is in a tree of git, which may have no commit yet: only what git has
// gets into the archive, as when a real proxy makes it of the tag.
func (p proxy) add(r repo, tree string, m module, version string) error {
	escaped, err := xmod.EscapePath(m.path)
	if err != nil {
		return err
	}
	dir := filepath.Join(string(p), filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	mod, err := m.file.Format()
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".mod": mod, version + ".info": info} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	err = zip.CreateFromVCS(f, xmod.Version{Path: m.path, Version: version}, r.dir, tree, m.dir)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
