package s3test

import "syscall"

// endWithParent lets a server end if the test is killed.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
