// Package resolver is what a caller links to have its calls routed whatever
// happens to the control plane. A [Resolver] holds the views of the services
// that it is told to, in memory and on disk, and picks instances by them; the
// plane only improves what it holds. Read [Open] and [Resolver.Pick] first;
// httpresolver and grpcresolver do the rest for the clients of net/http and grpc-go.
//
//	r, err := resolver.Open(ctx, resolver.Config{StateDir: "/var/lib/app", Services: []string{"payments"}})
//	pick, err := r.Pick("payments") // at once, without a lock, an allocation or a connection
//	…                               // a request to pick.Address()
//	pick.Done(resolver.Good)
//
// What is held is never given up for its age: after an outage of a week it is
// picked by as in the first second, and says how old it is. A view that would
// leave too little is taken by the guards of package view.
//
// [Views] and [Holder] are the two halves below, which the plane's own roles use
// without picking: views of services, and the route table of gateways.
package resolver
