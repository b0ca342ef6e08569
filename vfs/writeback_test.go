package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestStartWriteBack(t *testing.T) {
	m := create(t, NewMem(), "a", "abc")
	defer m.Close()
	wantError(t, "StartWriteBack", StartWriteBack(m, 0, 3), ErrUnsupported)
	f := create(t, faultless(Default), filepath.Join(t.TempDir(), "a"), "abc")
	err := StartWriteBack(f, 0, 3)
	if err != nil && err != ErrUnsupported {
		t.Fatal(err)
	}
	must(t, f.Close())
	if err == nil {
		if err := StartWriteBack(f, 0, 3); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("StartWriteBack of a closed file = %v, want fs.ErrClosed", err)
		}
	}
}
