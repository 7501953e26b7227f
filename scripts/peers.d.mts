export interface Peer {
  readonly name: string;
  /** The directory of the peer; its packages are in `node_modules` below. */
  readonly path: string;
  readonly available: boolean;
  /** Why it is not available, as a message for the user. */
  readonly reason: string | undefined;
  /** The file URL that a specifier has when imported inside the peer. */
  resolve(specifier: string): string;
  /** Imports as if from inside the peer. */
  import(specifier: string): Promise<Record<string, unknown>>;
}
export declare function everydayPeers(): string[];
export declare function ensurePeer(name: string, onStart?: () => void): Promise<Peer>;
