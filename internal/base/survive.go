package base

import (
	"fmt"
	"runtime/debug"
)

// A PanicError says that a function did not return: it panicked, or called runtime.Goexit.
type PanicError struct {
	Value any    // of the panic; nil: it was runtime.Goexit
	Stack []byte // of the panic
}

// Error returns a text of one line.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "shale: runtime.Goexit was called"
	}
	return fmt.Sprintf("shale: panic: %v", e.Value)
}

// Survive calls fn and returns its error. If fn panics or calls runtime.Goexit, it returns a
// *PanicError. For that, fn runs in a goroutine of its own.
//
// The store's own goroutines call the file system in this way. A program may bring its own file
// system, and there is no caller who could recover.
func Survive(fn func() error) (err error) {
	done := make(chan struct{})
	go func() {
		returned := false
		defer close(done)
		defer func() {
			if !returned {
				err = &PanicError{Value: recover(), Stack: debug.Stack()}
			}
		}()
		err = fn()
		returned = true
	}()
	<-done
	return err
}
