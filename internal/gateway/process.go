package gateway

import (
	"os"
	"strings"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// thisProcess is told to hosts, so that one on this machine sees for sure when
// it has ended; nil where it cannot be told.
func thisProcess() *pb.GatewayProcess {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil
	}
	return &pb.GatewayProcess{Boot: strings.TrimSpace(string(boot)), Namespace: namespace, Pid: int32(os.Getpid())}
}
