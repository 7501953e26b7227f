import { readFileSync } from 'node:fs';
import {
  API,
  type Checker,
  type Signature,
  SignatureKind,
  type Symbol as TypeSymbol,
  SymbolFlags,
  type Type,
} from 'typescript/unstable/sync';
import { ROOT } from '../../scripts/setup.mjs';

/**
 * What users of the doors can dispose, abort and iterate, found in the types: `serve` is a function
 * or class of a door, `Served.url` a member of something that one of them returns.
 */
export interface PublicLifecycle {
  /** Functions and classes that give an `AsyncDisposable`. */
  readonly disposables: readonly string[];
  /** Functions and methods that take an `AbortSignal`, alone or as the option `signal`. */
  readonly abortables: readonly string[];
  /** Functions, methods and members that give an `AsyncIterable`. */
  readonly streams: readonly string[];
}

let known: PublicLifecycle | undefined;

/** Reads the doors of package.json with the TypeScript compiler. */
export const publicLifecycle = (): PublicLifecycle => (known ??= readDoors());

function readDoors(): PublicLifecycle {
  const { exports: doors } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
    exports: Record<string, string>;
  };
  const files = Object.values(doors)
    .filter((path) => path.endsWith('.js'))
    .map((path) => path.replace('./dist/', `${ROOT}src/`).replace(/\.js$/, '.ts'));
  const api = new API({ cwd: ROOT });
  try {
    const snapshot = api.updateSnapshot({ openProjects: [`${ROOT}tsconfig.json`] });
    const project = snapshot.getProject(`${ROOT}tsconfig.json`);
    if (!project) throw new Error('the compiler did not open tsconfig.json');
    const { checker, program } = project;
    const walk = new Walk(checker);
    for (const file of files) {
      const source = program.getSourceFile(file);
      const door = source && checker.getSymbolAtLocation(source);
      if (!door) throw new Error(`the compiler does not know ${file}`);
      for (const each of checker.getExportsOfModule(door)) walk.exported(each);
    }
    return walk.found();
  } finally {
    api.close();
  }
}

class Walk {
  readonly #checker: Checker;
  readonly #seen = new Set<number>();
  readonly #disposables = new Set<string>();
  readonly #abortables = new Set<string>();
  readonly #streams = new Set<string>();

  constructor(checker: Checker) {
    this.#checker = checker;
  }

  found(): PublicLifecycle {
    return {
      disposables: [...this.#disposables].toSorted(),
      abortables: [...this.#abortables].toSorted(),
      streams: [...this.#streams].toSorted(),
    };
  }

  exported(symbol: TypeSymbol): void {
    const checker = this.#checker;
    const own = symbol.flags & SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    if (!(own.flags & SymbolFlags.Value)) return;
    const type = checker.getTypeOfSymbol(own);
    if (type) this.#value(symbol.name, type);
  }

  #value(name: string, type: Type): void {
    const checker = this.#checker;
    for (const signature of checker.getSignaturesOfType(type, SignatureKind.Construct))
      this.#signature(name, signature);
    this.#given(name, type);
  }

  /** A function, method or constructor: what it takes, and what its caller gets. */
  #signature(name: string, signature: Signature): void {
    const checker = this.#checker;
    for (const parameter of signature.getParameters()) {
      const type = checker.getTypeOfSymbol(parameter);
      if (type && this.#hasSignal(type)) this.#abortables.add(name);
    }
    const type = checker.getReturnTypeOfSignature(signature);
    if (type) this.#given(name, type);
  }

  /** What a caller gets: a value, perhaps in a promise, a union or an intersection. */
  #given(name: string, type: Type): void {
    const checker = this.#checker;
    if (type.isUnionType()) {
      for (const each of type.getTypes()) this.#given(name, each);
      return;
    }
    const symbol = type.getSymbol();
    if (symbol?.name === 'Promise' && type.isTypeReference()) {
      for (const each of checker.getTypeArguments(type)) this.#given(name, each);
      return;
    }
    for (const signature of checker.getSignaturesOfType(type, SignatureKind.Call))
      this.#signature(name, signature);
    const members = checker.getPropertiesOfType(type);
    const has = (member: string): boolean =>
      members.some((each) => each.name.startsWith(`__@${member}`));
    // A generator has a dispose of its own, which ends it as a `break` does.
    if (has('asyncDispose') && symbol?.name !== 'AsyncGenerator') this.#disposables.add(name);
    if (has('asyncIterator')) this.#streams.add(name);
    if (this.#seen.has(type.id)) return;
    this.#seen.add(type.id);
    for (const member of members) if (isOurs(member)) this.#member(name, type, member);
  }

  #member(name: string, owner: Type, member: TypeSymbol): void {
    // Members with a symbol as their name are handled above; private ones are not public.
    if (member.name.startsWith('__@') || member.name.includes('#')) return;
    const type = this.#checker.getTypeOfSymbol(member);
    if (!type) return;
    const declaring = member.getParent()?.name;
    const isNamed = declaring !== undefined && !declaring.startsWith('__');
    const holder = isNamed ? declaring : (owner.getAliasSymbol()?.name ?? name);
    this.#given(`${holder}.${member.name}`, type);
  }

  #hasSignal(type: Type): boolean {
    if (type.isUnionType()) return type.getTypes().some((each) => this.#hasSignal(each));
    if (type.getSymbol()?.name === 'AbortSignal') return true;
    const signal = this.#checker.getPropertyOfType(type, 'signal');
    const given = signal && this.#checker.getTypeOfSymbol(signal);
    return given !== undefined && this.#isSignal(given);
  }

  #isSignal(type: Type): boolean {
    if (type.isUnionType()) return type.getTypes().some((each) => this.#isSignal(each));
    return type.getSymbol()?.name === 'AbortSignal';
  }
}

const isOurs = (symbol: TypeSymbol): boolean =>
  symbol.declarations.some(({ path }) => path.startsWith(`${ROOT}src/`));
