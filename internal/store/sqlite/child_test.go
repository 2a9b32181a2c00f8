package sqlite

func runChild() {}
