package vfs

import "testing"

// If a file is cut while it is mapped, the write fails, as it does with the operating system.
func TestMem_MappingOfACutFile(t *testing.T) {
	file := create(t, NewMem(), "a", "")
	must(t, file.Preallocate(100))
	w, err := file.(Mapper).Map(100)
	must(t, err)
	must(t, file.Truncate(10))
	_, first := w.WriteAt([]byte("x"), 50)
	if first == nil {
		t.Error("a write behind the end of the file gave no error")
	}
	if _, again := w.WriteAt([]byte("x"), 0); again != first {
		t.Errorf("next write: %v, want %v", again, first)
	}
	must(t, w.Unmap())
}

// Sizes that would need a huge page table are refused.
func TestMem_Bounds(t *testing.T) {
	file := create(t, NewMem(), "a", "")
	for _, size := range []int64{-1, maxMemFile + 1, 1<<63 - 1} {
		if err := file.Truncate(size); err == nil {
			t.Errorf("Truncate(%d) gave no error", size)
		}
		if _, err := file.WriteAt([]byte("x"), size); err == nil {
			t.Errorf("WriteAt(%d) gave no error", size)
		}
		if err := file.Preallocate(size); err == nil {
			t.Errorf("Preallocate(%d) gave no error", size)
		}
	}
	if size, _ := file.Size(); size != 0 {
		t.Errorf("size %d after refused changes, want 0", size)
	}
}
