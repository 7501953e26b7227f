/**
 * Makes `Light` pass for the web's own class: it is one for `instanceof`, and whatever member it
 * does not have itself is that of the real object behind it, `target`, which is built when somebody
 * asks for such a member. So what every request needs costs next to nothing, and nothing is missing.
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
        const { target: whole } = this;
        const member: unknown = Reflect.get(whole, name);
        return typeof member === 'function' ? (member.bind(whole) as unknown) : member;
      },
    });
  }
  Object.setPrototypeOf(light, Real.prototype);
}
