package resp

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// A socket is a connection of TCP that is read and written without a word to the scheduler of Go, which otherwise prepares to
// run others meanwhile, and often does so in vain: neither call ever blocks. With clients that wait for each reply that saves
// a tenth of the processor time. One goroutine at a time reads, and one writes.
type socket struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out transfer
}

// A transfer is a call of Read or Write under way.
type transfer struct {
	p    []byte // what is still to be done
	n    int
	err  error
	step func(fd uintptr) (done bool) // kept, so that a call does not allocate
}

// direct returns conn, or a socket in its place.
func direct(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn // it is closed
	}
	s := &socket{TCPConn: tcp, raw: raw}
	s.in.step = func(fd uintptr) bool { return s.in.call(syscall.SYS_READ, fd) }
	s.out.step = func(fd uintptr) bool {
		for len(s.out.p) > 0 && s.out.err == nil {
			if !s.out.call(syscall.SYS_WRITE, fd) {
				return false
			}
		}
		return true
	}
	return s
}

// call makes a system call, and returns false if the socket is not ready for it.
func (t *transfer) call(what, fd uintptr) (ready bool) {
	n, _, errno := syscall.RawSyscall(what, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.p))), uintptr(len(t.p)))
	switch errno {
	case 0:
		t.p, t.n = t.p[n:], t.n+int(n)
	case syscall.EAGAIN:
		return false
	case syscall.EINTR:
		return t.call(what, fd)
	default:
		t.err = os.NewSyscallError("socket", errno)
	}
	return true
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (int, error) {
	s.in.begin(p)
	n, err := s.in.end(s.raw.Read(s.in.step))
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	s.out.begin(p)
	return s.out.end(s.raw.Write(s.out.step))
}

// begin prepares a call that transfers p.
func (t *transfer) begin(p []byte) { t.p, t.n, t.err = p, 0, nil }

// end returns what the call has done. err is that of waiting for the socket.
func (t *transfer) end(err error) (int, error) {
	t.p = nil
	if err == nil {
		err = t.err
	}
	return t.n, err
}
