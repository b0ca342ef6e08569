package base

// Wake wakes the goroutine that receives from c, now or when it receives
// next. If a value is in c already, Wake adds none, because one is enough.
//
// Requires: c has a buffer of one.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
