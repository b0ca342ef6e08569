//go:build !lockorder

package lockorder

import "sync"

// A Mutex is a lock that has a place in the order. The zero value is unlocked.
type Mutex[L Lock] struct{ sync.Mutex }

// Enter notes that the goroutine takes a lock that is not a Mutex.
func Enter[L Lock]() {}

// Leave notes that it gives the lock up.
func Leave[L Lock]() {}
