/** A component that is loaded when it is first shown, such as the terminal and the editor. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, Loading } from "./ui/basics";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [, ready] = useState(0);
    const [error, setError] = useState<Error>();
    useEffect(() => {
      if (loaded) return;
      load().then(
        (component) => {
          loaded = component;
          ready(1);
        },
        () => setError(new Error("A part of the page could not be loaded. Reload the page.")),
      );
    }, []);
    if (error) return <Failure error={error} />;
    const Component = loaded;
    return Component ? <Component {...props} /> : <Loading />;
  };
}
