package base

// Wake leaves a note for the goroutine that listens to c. If there is a note already,
// one is enough.
//
// Requires: c has a buffer of one.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
