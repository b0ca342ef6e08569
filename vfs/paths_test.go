package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The result of Abs for a name of the operating system does not depend on a later
// change of directory. A Mem has no working directory, so its names stay as they are.
func TestAbs(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	here, err := os.Getwd()
	must(t, err)
	mem := NewMem()
	for _, c := range []struct {
		fs         FS
		name, want string
	}{
		{Default, "db", filepath.Join(here, "db")},
		{Default, "a/../db/.", filepath.Join(here, "db")},
		{Default, filepath.Join(here, "db"), filepath.Join(here, "db")},
		{faultless(Default), "db", filepath.Join(here, "db")},
		{mem, "db", "db"},
		{faultless(mem), "db", "db"},
		{struct{ FS }{mem}, "db", "db"},
	} {
		if got, err := Abs(c.fs, c.name); got != c.want || err != nil {
			t.Errorf("%T: Abs(%q) = %q, %v; want %q", c.fs, c.name, got, err, c.want)
		}
	}
}

// The empty name does not stand for the working directory.
func TestAbs_Empty(t *testing.T) {
	_, err := Abs(Default, "")
	wantError(t, "Abs", err, fs.ErrNotExist)
	_, err = Within(Default, "", ".")
	wantError(t, "Within", err, fs.ErrNotExist)
}

// Within knows whether a name lies in a directory, in whatever way it is written:
// relative, with dots, through a link at the end or on the way, existing or not.
func TestWithin(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	mem := NewMem()
	for _, fsys := range []FS{Default, mem} {
		must(t, fsys.MkdirAll("a/store/sub"))
		must(t, fsys.MkdirAll("a/store2"))
		writeFile(t, fsys, "a/file", "x")
	}
	must(t, os.Symlink("a", "toparent"))
	must(t, os.Symlink(filepath.Join(root, "a", "store"), "link"))
	must(t, os.Symlink("store", filepath.Join("a", "inner")))
	must(t, os.Symlink(filepath.Join("..", "store2"), filepath.Join("a", "store", "out")))
	type row struct {
		name, dir string
		want      bool
	}
	plain := []row{
		{"a/store", "a/store", true},
		{"a/store/", "a/store", true},
		{"a/store/sub", "a/store", true},
		{"a/store/sub/new/er", "a/store", true},
		{"a/store/new", "a/store", true},
		{"a/x/../store/./new", "a/store", true},
		{"a/store2", "a/store", false},
		{"a/store2/new", "a/store", false},
		{"a/storeX/new", "a/store", false},
		{"a/store/../new", "a/store", false},
		{"a", "a/store", false},
		{"new", "a/store", false},
		{"a/gone/new", "a/gone", false},
	}
	for _, r := range append(plain, []row{
		{"link", "a/store", true},
		{"link/new", "a/store", true},
		{"a/store/new", "link", true},
		{"toparent/store/new", "a/store", true},
		{"toparent/inner/sub/new", "link", true},
		{filepath.Join(root, "link", "new"), "a/inner", true},
		{"toparent/new", "a/store", false},
		{"a/store/out/new", "a/store", false},
	}...) {
		for _, fsys := range []FS{Default, faultless(Default)} {
			if got, err := Within(fsys, r.name, r.dir); got != r.want || err != nil {
				t.Errorf("%T: Within(%q, %q) = %v, %v; want %v", fsys, r.name, r.dir, got, err, r.want)
			}
		}
	}
	for _, r := range plain[:len(plain)-1] { // a Mem compares names alone
		for _, fsys := range []FS{mem, faultless(mem), struct{ FS }{mem}} {
			if got, err := Within(fsys, r.name, "/"+r.dir); got != r.want || err != nil {
				t.Errorf("%T: Within(%q, %q) = %v, %v; want %v", fsys, r.name, r.dir, got, err, r.want)
			}
		}
	}
	if _, err := Within(Default, "a/file/new", "a/store"); err == nil {
		t.Error("Within of a name below a file: no error")
	}
}
