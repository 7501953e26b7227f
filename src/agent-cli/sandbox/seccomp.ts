/** The system call numbers of one processor architecture. */
interface Table {
  /** `AUDIT_ARCH_…` of linux/audit.h. */
  readonly arch: number;
  readonly socket: number;
  readonly denied: readonly number[];
}

/**
 * Calls with the same number on every architecture: io_uring (it opens sockets that this filter
 * does not see), the new mount calls, and pidfd_getfd.
 */
const COMMON = [425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442];

/**
 * The tables by `process.arch`. `denied` lists, in this order: ptrace, process_vm_readv,
 * process_vm_writev, kcmp, keyctl, add_key, request_key, bpf, perf_event_open, userfaultfd,
 * kexec_load, open_by_handle_at, mount, umount2, pivot_root, setns.
 */
const TABLES: Readonly<Record<string, Table>> = {
  x64: {
    arch: 0xc000003e,
    socket: 41,
    denied: [101, 310, 311, 312, 250, 248, 249, 321, 298, 323, 246, 304, 165, 166, 155, 308],
  },
  arm64: {
    arch: 0xc00000b7,
    socket: 198,
    denied: [117, 270, 271, 272, 219, 217, 218, 280, 241, 282, 104, 265, 40, 39, 41, 268],
  },
};

/**
 * The socket families that a command may open. AF_UNIX is denied: a read-only file system does not
 * prevent a connection to a socket in it, such as the one of a container engine. AF_VSOCK and
 * others are denied because a network namespace does not isolate them.
 */
const FAMILIES = { inet: 2, inet6: 10, netlink: 16 };

const LOAD = 0x20;
const IF_EQUAL = 0x15;
const IF_AT_LEAST = 0x35;
const RETURN = 0x06;
const ALLOW = 0x7fff0000;
const DENY_EPERM = 0x00050001;
/** Offsets in `struct seccomp_data`: the call number, the architecture, the first argument. */
const NUMBER = 0;
const ARCH = 4;
const FIRST_ARGUMENT = 16;
/** This bit marks calls of the x32 ABI, whose numbers differ from those of the table. */
const X32 = 0x40000000;

type Instruction = readonly [code: number, yes: number, no: number, value: number];

/**
 * Builds the seccomp filter for `bwrap --seccomp`. Undefined: this architecture is not supported.
 * Calls that access other processes, kernel keys or mounts, and sockets of other families, fail
 * with EPERM.
 */
export function seccompFilter(arch: string = process.arch): Uint8Array | undefined {
  const table = TABLES[arch];
  if (!table) return undefined;
  const families = Object.values(FAMILIES);
  // The last two instructions allow and deny. A jump is the number of instructions that it skips.
  const program: Instruction[] = [];
  const denied = [...table.denied, ...COMMON];
  const length = 5 + denied.length + 1 + families.length + 2;
  const allow = length - 2;
  const deny = length - 1;
  const to = (target: number): number => target - program.length - 1;
  program.push([LOAD, 0, 0, ARCH]);
  program.push([IF_EQUAL, 0, to(deny), table.arch]);
  program.push([LOAD, 0, 0, NUMBER]);
  program.push([IF_AT_LEAST, to(deny), 0, X32]);
  for (const number of denied) program.push([IF_EQUAL, to(deny), 0, number]);
  program.push([IF_EQUAL, 0, to(allow), table.socket]);
  program.push([LOAD, 0, 0, FIRST_ARGUMENT]);
  families.forEach((family, i) => {
    const last = i === families.length - 1;
    program.push([IF_EQUAL, to(allow), last ? to(deny) : 0, family]);
  });
  program.push([RETURN, 0, 0, ALLOW], [RETURN, 0, 0, DENY_EPERM]);
  return encode(program);
}

function encode(program: readonly Instruction[]): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(program.length * 8));
  program.forEach(([code, yes, no, value], i) => {
    bytes.setUint16(i * 8, code, true);
    bytes.setUint8(i * 8 + 2, yes);
    bytes.setUint8(i * 8 + 3, no);
    bytes.setUint32(i * 8 + 4, value, true);
  });
  return new Uint8Array(bytes.buffer);
}
