/**
 * Makes `Light` behave like the web class `Real`: `instanceof` is true, and every member that
 * `Light` does not define is read from `target`, the real object, which is created on first use of
 * such a member. So the members that every request needs are cheap, and none is missing.
 */
export function inheritWebMembers<T extends object>(
  Light: { readonly prototype: { readonly target: T } },
  Real: { readonly prototype: T },
): void {
  const light = Light.prototype;
  for (const name of Object.getOwnPropertyNames(Real.prototype)) {
    if (name in light) continue;
    Object.defineProperty(light, name, {
      configurable: true,
      get(this: { readonly target: T }): unknown {
        const { target } = this;
        const member: unknown = Reflect.get(target, name);
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
  }
  Object.setPrototypeOf(light, Real.prototype);
}
