package testenv

import (
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	hung := make(chan struct{})
	stop := watch(5*time.Millisecond, time.Millisecond, func() { close(hung) })
	<-hung
	stop()

	stop = watch(time.Hour, time.Millisecond, func() { t.Error("an hour is over soon") })
	stop()
	stop()
}
