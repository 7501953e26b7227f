// The tests of test/mcp/grpc/python.test.ts, on machines where grpcio was installed for this run.
import '../mcp/grpc/python.test.ts';
