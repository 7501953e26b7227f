// The same tests as every day, for where grpcio was installed for them.
import '../mcp/grpc/python.test.ts';
