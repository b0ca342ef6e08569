package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// programs are what a release has binaries of, by their directories.
var programs = []string{"cmd/shale", "remote/cmd/shale-remote", "cluster/cmd/shaled"}

// makeBinaries builds programs as they are at the tag, for each system, with their checksums and a
// list of what they consist of. Our modules come from the tag as well, by a proxy in a directory, so
// the tag need not be pushed yet. Whoever builds them again with this version of Go gets the same bytes.
func makeBinaries(ctx context.Context, r repo, version, out string, programs, systems []string) (err error) {
	temp, err := os.MkdirTemp("", "shale-binaries")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	tree, err := r.clone(filepath.Join(temp, "tree"))
	if err != nil {
		return err
	}
	if _, err := tree.git("", "checkout", "-q", "refs/tags/"+version); err != nil {
		return err
	}
	names, err := tree.goMods()
	if err != nil {
		return err
	}
	modules, err := findModules(tree.dir, names)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if m.kept == "" {
			if err := proxy(filepath.Join(temp, "proxy")).add(tree, "HEAD", m, version); err != nil {
				return err
			}
		}
	}
	env := append(os.Environ(), proxyEnv(filepath.Join(temp, "proxy"), filepath.Join(temp, "modules"))...)
	var all []binary
	for _, system := range systems {
		goos, goarch, ok := strings.Cut(system, "/")
		if !ok {
			return fmt.Errorf("%q is no system: want one such as linux/amd64", system)
		}
		run := goCommand{ctx: ctx, env: append(slices.Clone(env), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")}
		for _, program := range programs {
			b := binary{name: fmt.Sprintf("%s-%s-%s-%s", filepath.Base(program), version, goos, goarch)}
			if goos == "windows" {
				b.name += ".exe"
			}
			if err := b.build(run, tree, program, version, filepath.Join(out, b.name)); err != nil {
				return err
			}
			all = append(all, b)
		}
	}
	var sums strings.Builder
	for _, b := range all {
		fmt.Fprintf(&sums, "%s  %s\n", b.sum, b.name)
	}
	bom, err := json.MarshalIndent(billOfMaterials(version, all), "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o666),
		os.WriteFile(filepath.Join(out, "shale-"+version+".cdx.json"), append(bom, '\n'), 0o666))
}

// A binary is a program for one system.
type binary struct {
	name, sum string
	info      *debug.BuildInfo
}

// build builds the program, and sees to it that it knows its version.
func (b *binary) build(run goCommand, tree repo, program, version, to string) error {
	if err := run.in(filepath.Join(tree.dir, program), "build", "-buildvcs=true", "-ldflags=-s -w", "-o", to, "."); err != nil {
		return err
	}
	data, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	b.sum = hex.EncodeToString(sum[:])
	if b.info, err = buildinfo.ReadFile(to); err != nil {
		return err
	}
	if b.info.Main.Version != version {
		return fmt.Errorf("%s says that it is %s: is the tag of its module there?", b.name, b.info.Main.Version)
	}
	return nil
}

// billOfMaterials lists binaries, and the modules and the standard library that they link, as CycloneDX 1.5 has it
// (cyclonedx.org/docs/1.5/json). A module's hash is the one of go.sum. There is no time in it, so that the bytes can be
// made again. JsonStrictValidator of @cyclonedx/cyclonedx-library (npm) accepts it: try that again after a change.
func billOfMaterials(version string, all []binary) map[string]any {
	components, dependencies := []map[string]any{}, []map[string]any{}
	modules := make(map[string]*debug.Module)
	for _, b := range all {
		var on []string
		goVersion, _, _ := strings.Cut(strings.TrimPrefix(b.info.GoVersion, "go"), " ") // behind a space are experiments
		for _, m := range append(b.info.Deps, &debug.Module{Path: "stdlib", Version: goVersion}) {
			ref := "pkg:golang/" + m.Path + "@" + m.Version
			modules[ref] = m
			on = append(on, ref)
		}
		components = append(components, map[string]any{
			"type": "application", "bom-ref": b.name, "name": b.name, "version": version,
			"hashes":     []map[string]string{{"alg": "SHA-256", "content": b.sum}},
			"properties": []map[string]string{{"name": "go:version", "value": b.info.GoVersion}},
		})
		dependencies = append(dependencies, map[string]any{"ref": b.name, "dependsOn": on})
	}
	refs := make([]string, 0, len(modules))
	for ref := range modules {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	for _, ref := range refs {
		m := modules[ref]
		c := map[string]any{"type": "library", "bom-ref": ref, "purl": ref, "name": m.Path, "version": m.Version}
		if m.Sum != "" {
			c["properties"] = []map[string]string{{"name": "go:sum", "value": m.Sum}}
		}
		components = append(components, c)
	}
	return map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"component": map[string]any{"type": "application", "name": "shale", "version": version}},
		"components": components, "dependencies": dependencies,
	}
}
